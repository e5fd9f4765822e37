"""Answers as the client for asyncio reads them, from servers and proxies of any kind."""

import asyncio
import http.client
import inspect

import pytest

import stockade
from stockade import AsyncClient, ServiceError
from stockade.service.async_client import _answer

HEAD = b"HTTP/1.1 200 OK\r\n"


def read(data):
    async def main():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        status, _, body = await _answer(reader)
        return status, body

    return asyncio.run(main())


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 4\r\n\r\ntextmore",
        b"\r\ntext",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\ntex\r\n1;a=b\r\nt\r\n0\r\nTrailer: x\r\n\r\n",
    ],
)
def test_answer_is_read_in_each_form(rest):
    assert read(HEAD + rest) == (200, b"text")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD,
        b"SSH-2.0-x\r\n\r\n",
        b"x\r\n\r\n",
        HEAD + b"Content-Length: 9\r\n\r\ntext",
        HEAD + b"Content-Length: x\r\n\r\ntext",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a" * (1 << 17),
    ],
)
def test_answer_that_is_none_is_an_error_of_http(data):
    with pytest.raises(http.client.HTTPException):
        read(data)


def test_service_that_cannot_be_reached_is_an_error_after_the_patience():
    with pytest.raises(ServiceError, match="cannot be reached: ConnectionRefusedError") as found:
        asyncio.run(AsyncClient("http://127.0.0.1:1", "key", patience=0.2).run("1"))
    assert found.value.status == 0


@pytest.mark.parametrize("name", ["RemoteSandbox", "RemoteFiles", "RemoteInterpreter", "RemoteTerminal"])
def test_async_classes_have_the_methods_of_the_blocking_ones(name):
    found, expected = (
        {
            method: str(inspect.signature(each)).replace("AsyncRemote", "Remote")
            for method, each in inspect.getmembers(kind, inspect.isfunction)
            if not method.startswith("_")
        }
        for kind in (getattr(stockade, f"Async{name}"), getattr(stockade, name))
    )
    assert found == expected
    assert all("Steps" not in each for each in found.values())
