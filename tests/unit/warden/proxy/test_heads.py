import pytest

from stockade.warden.proxy import heads
from stockade.warden.proxy.account import Refused

GET = b"GET http://example.org/x HTTP/1.1\r\nHost: example.org"


def test_absolute_request_is_written_anew_for_its_server():
    head = (
        b"POST http://Example.org:8080?q=1 HTTP/1.1\r\nHost: example.org:8080\r\nAccept: */*\r\nProxy-Connection: keep-alive"
        b"\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\nContent-Length: 3\r\nExpect: 100-continue"
    )
    found = heads.parse(head)
    assert (str(found.target), found.connect, found.length, found.chunked, found.expects) == (
        "example.org:8080", False, 3, False, True,
    )  # fmt: skip
    assert found.head == (
        b"POST /?q=1 HTTP/1.1\r\nHost: example.org:8080\r\naccept: */*\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
    )


def test_connect_needs_host_and_port():
    assert heads.parse(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443").connect
    assert heads.parse(b"CONNECT example.org:443 HTTP/1.0").target.port == 443
    with pytest.raises(Refused):
        heads.parse(b"CONNECT example.org HTTP/1.1\r\nHost: example.org")


@pytest.mark.parametrize(
    "head",
    [
        b"", b"GET /x HTTP/1.1\r\nHost: example.org", b"GET http://example.org/x", b"GET  http://example.org/x HTTP/1.1",
        b"GET http://example.org/x HTTP/2.0\r\nHost: example.org", b"GET http://example.org/x HTTP/1.1",
        b"GET https://example.org/x HTTP/1.1\r\nHost: example.org", b"GET ftp://example.org/x HTTP/1.1\r\nHost: example.org",
        b"G(T http://example.org/x HTTP/1.1\r\nHost: example.org", b"GET http://example.org/\xff HTTP/1.1\r\nHost: example.org",
        b"GET http://example.org/x#y HTTP/1.1\r\nHost: example.org", b"GET http://a@example.org/ HTTP/1.1\r\nHost: example.org",
        b"GET http://example.org\\@b/ HTTP/1.1\r\nHost: example.org", b"\r\n" + GET,
        GET + b"\r\nHost: example.org", GET + b"\r\n folded", GET + b"\r\nName : value", GET + b"\r\n: value",
        GET + b"\r\nNo-Colon", GET + b"\r\nA: b\nHost: c", GET + b"\r\nA: b\rc", GET + b"\r\nA: \0",
        GET + b"\r\nContent-Length: 1\r\nContent-Length: 1", GET + b"\r\nContent-Length: +1", GET + b"\r\nContent-Length: 1, 1",
        GET + b"\r\nContent-Length: 0x1", GET + b"\r\nContent-Length: \xb2", GET + b"\r\nTransfer-Encoding: chunked\r\nContent-Length: 1",
        GET + b"\r\nTransfer-Encoding: xchunked", GET + b"\r\nTransfer-Encoding: gzip, chunked",
        GET + b"\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked", GET + b"\r\nTransfer-Encoding: chunked\x0b",
        GET.replace(b"1.1", b"1.0") + b"\r\nTransfer-Encoding: chunked", GET + b"\r\nA: b" * 101,
    ],
)  # fmt: skip
def test_head_that_can_be_read_in_two_ways_is_refused(head):
    with pytest.raises(Refused) as caught:
        heads.parse(head)
    assert caught.value.status == 400


@pytest.mark.parametrize("host", [b"evil.org", b"example.org:81", b"example.org.", b"EXAMPLE.org@b", b"", b"1.2.3.4"])
def test_host_field_must_name_the_target(host):
    with pytest.raises(Refused) as caught:
        heads.parse(b"GET http://example.org/ HTTP/1.1\r\nHost: " + host)
    assert caught.value.status == 403


def test_reply_announces_the_end_of_the_connection():
    assert heads.reply_head(b"HTTP/1.1 200 OK\r\nconnection: Keep-Alive\r\nA: b") == (
        200,
        b"HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\n",
    )
    assert heads.reply_head(b"HTTP/1.1 103 Early") == (103, b"HTTP/1.1 103 Early\r\n\r\n")
    for head in (b"HTTP/1.1 101 Switching", b"HTTP/2 200", b"HTTP/1.1 2000", b"ICY 200 OK", b""):
        with pytest.raises(Refused):
            heads.reply_head(head)
