"""The warden's end of a run's socket, on a pair of real ones."""

from __future__ import annotations

import _socket
import os
import socket
from collections.abc import Iterator

import pytest

from stockade.warden import loop, wire
from stockade.warden.link import Link


class Nobody:
    """Is told, and does nothing."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


@pytest.fixture
def pair() -> Iterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    link = Link(loop.Guarded(loop.Loop(), print), _socket.socket(fileno=theirs.detach()), wire.Decoder(), Nobody())
    yield link, ours
    link.close()
    ours.close()


def test_a_descriptor_is_sent_to_who_has_read_all_before_it(pair: tuple[Link, socket.socket]) -> None:
    link, caller = pair
    words = wire.encode("lent")
    assert link.send_with_descriptor("lent", 0)
    assert not link.send_with_descriptor("lent", 0)
    caller.recv(len(words) - 1)
    assert not link.send_with_descriptor("lent", 0)
    caller.recv(1)
    assert link.send_with_descriptor("lent", 0)
    data, fds, _, _ = socket.recv_fds(caller, 100, 4)
    assert (data, len(fds)) == (words, 1)
    os.close(fds[0])


def test_none_is_sent_before_what_waits_to_be_sent(pair: tuple[Link, socket.socket]) -> None:
    link, caller = pair
    link.send_with_next("started")
    assert not link.send_with_descriptor("lent", 0)
    link.flush()
    caller.recv(100)
    assert link.send_with_descriptor("lent", 0)
