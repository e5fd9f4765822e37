"""The check of what a kernel sends refuses what the library of ZeroMQ would take in."""

from __future__ import annotations

import socket

import pytest

from stockade.api.ports import PortStream
from stockade.integrations.zmtp import CheckedStream, FrameCheck

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x04\x06\x05READY"
MORE, LONG = 1, 2


def frame(body, flags=0):
    if len(body) > 255:
        return bytes([flags | LONG]) + len(body).to_bytes(8, "big") + body
    return bytes([flags, len(body)]) + body


def feed(data, *, piece, longest=10_000):
    check = FrameCheck(longest)
    for at in range(0, len(data), piece):
        check.check(data[at : at + piece])


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_stream_of_messages_passes(piece):
    message = frame(b"id", MORE) + frame(b"", MORE) + frame(b"x" * 9000)
    feed(GREETING + READY + message * 3, piece=piece)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x01\x00", "does not begin"),  # of the protocol before 2011
        (GREETING[:9] + b"\x7e" + GREETING[10:], "does not begin"),
        (GREETING[:10] + b"\x01" + GREETING[11:], "does not begin"),
        (GREETING.replace(b"NULL", b"CURV"), "mechanism"),
        (GREETING + b"\x08\x00", "unknown flags"),
        (GREETING + bytes([LONG]) + b"\xff" * 8, "more than 10000"),  # the length of CVE-2019-6250
        (GREETING + frame(b"x" * 6000, MORE) + frame(b"x" * 6000), "more than 10000"),
        (GREETING + frame(b"x" * 6000, MORE) + READY + frame(b"x" * 6000), "more than 10000"),
        (GREETING + frame(b"", MORE) * 100, "more than 10000"),
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_stream_that_breaks_a_rule_is_refused(data, why, piece):
    with pytest.raises(ValueError, match=why):
        feed(data, piece=piece)


def test_checked_stream_passes_nothing_after_a_refusal():
    ours, theirs = socket.socketpair()
    with theirs, CheckedStream.over(PortStream(fileno=ours.detach()), _refusing) as stream:
        theirs.sendall(b"good")
        assert stream.recv(100) == b"good"
        theirs.sendall(b"bad")
        with pytest.raises(OSError, match="bad"):
            stream.recv(100)


def _refusing(data):
    if data == b"bad":
        raise OSError("bad")
