import ssl
import struct

import pytest

from stockade.warden.proxy import tls


def _hello(name, **settings):
    context = ssl.create_default_context()
    context.check_hostname = False
    out = ssl.MemoryBIO()
    made = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        made.do_handshake()
    return out.read()


def _read(data):
    records, hello = tls.Records(), tls.Hello()
    for at in range(len(data)):
        for kind, content, _ in records.feed(data[at : at + 1]):
            assert kind == tls.HANDSHAKE
            body = hello.feed(content)
            if body is not None:
                return tls.server_name(body)
    return None


def _in_records(message, size):
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(part)) + part for part in parts)


def _with_names(*names):
    """Return a ClientHello with one server_name extension for each of ``names``, which are whole lists."""
    extensions = b"".join(struct.pack(">HH", 0, len(each)) + each for each in names)
    body = (
        b"\x03\x03"
        + bytes(32)
        + b"\0"
        + b"\0\x02\x13\x01"
        + b"\x01\0"
        + struct.pack(">H", len(extensions))
        + extensions
    )
    return _in_records(b"\x01" + len(body).to_bytes(3, "big") + body, 1 << 14)


def _name(text, kind=0):
    entry = bytes([kind]) + struct.pack(">H", len(text)) + text
    return struct.pack(">H", len(entry)) + entry


def test_hello_of_a_real_client_names_its_server():
    assert _read(_hello("Example.org")) == "example.org"


def test_hello_in_many_records_names_its_server():
    whole = _hello("example.org")
    assert _read(_in_records(whole[5:], 7)) == "example.org"


def test_incomplete_hello_has_no_name_yet():
    assert _read(_hello("example.org")[:-1]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n", b"\x80\x2e\x01\x03\x01", b"\x16\x02\x00\x00\x01\x01", b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff", b"\x16\x03\x01\x00\x01\x02", b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
        _hello(None), _with_names(), _with_names(_name(b"a.org"), _name(b"b.org")), _with_names(_name(b"a.org", kind=1)),
        _with_names(_name(b"a.org") + b"x"), _with_names(b"\0\x10\0\0\x05a.org\0\0\x05b.org"), _with_names(_name(b"\xff.org")),
        _with_names(b"\0\xff\0\0\x05a.org"),
    ],
)  # fmt: skip
def test_hello_without_exactly_one_name_is_refused(data):
    with pytest.raises(tls.TlsError):
        _read(data)


def test_bytes_after_the_hello_in_its_record_are_refused():
    message = _hello("example.org")[5:]
    with pytest.raises(tls.TlsError):
        _read(_in_records(message + b"\x01", 1 << 14))


def test_first_answer_tells_a_retry_from_a_server_hello():
    retry = b"\x02" + (60).to_bytes(3, "big") + b"\x03\x03" + tls._RETRY + bytes(26)
    other = b"\x02" + (60).to_bytes(3, "big") + b"\x03\x03" + bytes(58)
    assert tls.FirstAnswer().feed(_in_records(retry, 11)) is True
    assert tls.FirstAnswer().feed(_in_records(other, 1000)) is False
    assert tls.FirstAnswer().feed(_in_records(retry, 1000)[:20]) is None
    warning = b"\x15\x03\x03\x00\x02\x01\x70"
    assert tls.FirstAnswer().feed(warning) is None
    assert tls.FirstAnswer().feed(warning + _in_records(retry, 1000)) is True


@pytest.mark.parametrize("answer", [b"\x17\x03\x03\x00\x01x", _in_records(b"\0\0\0\0", 4), b"HTTP/1.1 200 OK\r\n"])
def test_first_answer_without_server_hello_is_refused(answer):
    """After a HelloRequest, for example, some clients send a second ClientHello, which nobody would check."""
    with pytest.raises(tls.TlsError):
        tls.FirstAnswer().feed(answer)
