"""Slow and large requests, over real sockets to a server in this process."""

import asyncio
import contextlib
import json
import sqlite3

import pytest
import uvicorn

from stockade import JobError
from stockade.service import app, gate
from stockade.service.database import FILE, Database
from stockade.service.server import prepared, serve
from stockade.service.settings import Settings
from stockade.service.state import State

HEAD = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n"

SOCKET = (
    b"GET /v1/sandboxes/x/terminal HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX-API-Key: %s\r\n\r\n"
)


@contextlib.asynccontextmanager
async def served(folder, make=app.make):
    database = Database(folder)
    state = State(Settings(folder, body_bytes=1000), database)
    config = uvicorn.Config(
        gate.Gate(make(state), state), http=gate.Protocol, ws=gate.SocketProtocol, lifespan="off", log_config=None,
        port=0, timeout_graceful_shutdown=5,
    )  # fmt: skip
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1], state.keys.add("ann").encode(), server
    finally:
        server.should_exit = True
        await task
        database.close()


async def exchange(port, *pieces):
    """Send pieces and return all that comes until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ((), b""),
        ((HEAD,), b""),
        ((b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /hea",), b"HTTP/1.1 200"),
        ((HEAD + b"Connection: close\r\nContent-Length: 100\r\n\r\n{",), b"HTTP/1.1 408"),
        ((HEAD + b"Connection: close\r\nContent-Length: 1001\r\n\r\n",), b"HTTP/1.1 413"),
        ((HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n", b"3e9\r\n" + b" " * 1001), b"HTTP/1.1 413"),
        ((b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 9999999\r\n\r\n",), b"HTTP/1.1 401"),
        ((HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",), b"HTTP/1.1 400"),
    ],
)  # fmt: skip
def test_slow_large_and_ambiguous_requests_end(tmp_path, monkeypatch, sent, answer):
    monkeypatch.setattr(gate, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.5)

    async def main():
        async with served(tmp_path) as (port, key, _):
            return await exchange(port, *(piece % key if b"%s" in piece else piece for piece in sent))

    found = asyncio.run(main())
    assert found.startswith(answer) if answer else not found, found


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (SOCKET, b"HTTP/1.1 404"),
        (SOCKET.replace(b"X-API-Key: %s", b"X: y"), b"HTTP/1.1 401"),
        (SOCKET.replace(b"/v1/sandboxes/x/terminal", b"/v1/runs"), b"HTTP/1.1 403"),
        (SOCKET.replace(b"/v1/sandboxes/x/terminal", b"/healthz").replace(b"X-API-Key: %s", b"X: y"), b"HTTP/1.1 401"),
        (SOCKET.replace(b"GET", b"POST"), b"HTTP/1.1 400"),
        (SOCKET.replace(b"Sec-WebSocket-Key", b"X"), b"HTTP/1.1 400"),
        (SOCKET.replace(b"Host: x", b"Host: \xff"), b""),
        (SOCKET.replace(b"Connection: ", b"Connection: \xff, "), b""),
        (SOCKET + b"\xff" * 100, b"HTTP/1.1 404"),
    ],
)
def test_malformed_sockets_end_without_an_error_of_the_server(tmp_path, head, answer):
    errors = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))
        async with served(tmp_path) as (port, key, _):
            return await exchange(port, head.replace(b"%s", key))

    found = asyncio.run(main())
    assert found.startswith(answer) if answer else not found, found
    assert not errors


def test_terminal_is_refused_while_the_database_fails(tmp_path):
    async def main():
        async with served(tmp_path) as (port, key, _):
            with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as db:
                db.execute("DROP TABLE sandboxes")
            return await exchange(port, SOCKET % key)

    head, _, body = asyncio.run(main()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503"), head
    assert b"retry-after: 5" in head.lower()
    assert json.loads(body)["error"] == "DatabaseError"


def test_socket_that_is_not_read_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "SEND_SECONDS", 0.5)

    async def flood(_scope, _receive, send):
        await send({"type": "websocket.accept"})
        while True:
            await send({"type": "websocket.send", "bytes": bytes(1 << 16)})

    async def main():
        async with served(tmp_path, lambda _state: flood) as (port, key, server):
            _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            writer.write(SOCKET % key)
            async with asyncio.timeout(30):
                while not server.server_state.connections or not server.server_state.tasks:
                    await asyncio.sleep(0.01)
                while server.server_state.connections:
                    await asyncio.sleep(0.01)
            writer.close()

    asyncio.run(main())


def test_answer_that_is_not_read_ends(tmp_path, monkeypatch):
    """The application has sent all, and waits for nobody: the answer waits in the socket."""
    monkeypatch.setattr(gate, "SEND_SECONDS", 0.5)

    async def large(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(64 << 20)})

    async def main():
        async with served(tmp_path, lambda _state: large) as (port, key, server):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n\r\n" % key)
            assert await asyncio.wait_for(reader.read(1), 30)
            async with asyncio.timeout(30):
                while server.server_state.connections:
                    await asyncio.sleep(0.01)
            writer.close()

    asyncio.run(main())


def test_answers_to_pings_that_nobody_reads_are_bounded(tmp_path):
    async def silent(_scope, _receive, send):
        await send({"type": "websocket.accept"})
        await asyncio.Event().wait()

    async def main():
        async with served(tmp_path, lambda _state: silent) as (port, key, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(SOCKET % key)
            assert b" 101 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            pings = (b"\x89\xfd" + bytes(4 + 125)) * 1000
            with pytest.raises(ConnectionError):
                for _ in range(500):
                    writer.write(pings)
                    await asyncio.wait_for(writer.drain(), 30)
            writer.close()

    asyncio.run(main())


def test_data_folder_is_its_owners_alone(tmp_path):
    folder = tmp_path / "a" / "b"
    assert prepared(folder).stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    (folder / "lock").touch()  # of a server that was killed before it made the database
    assert prepared(folder).stat().st_mode & 0o777 == 0o700
    with pytest.raises(JobError, match="has other files"):
        prepared(tmp_path)
    (folder / "file").touch()
    with pytest.raises(JobError, match="file"):
        prepared(folder / "file")


def test_address_for_others_needs_a_key_first(tmp_path, monkeypatch):
    monkeypatch.setattr("os.umask", lambda _mask: 0)
    with pytest.raises(JobError, match="keys add NAME"):
        serve(Settings(tmp_path / "data"), "0.0.0.0", 0, print)
