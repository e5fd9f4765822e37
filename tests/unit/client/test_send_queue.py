"""Messages from any thread go out whole and in order. The reader is woken if some bytes are left."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stockade.client.send_queue import SendQueue


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    theirs.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


def box(sock):
    exchange = SimpleNamespace(outgoing=bytearray(), finished=False, cancelled=False, trace=0, all_sent=lambda: None)
    send_queue, woken = SendQueue(cast(Any, exchange), sock), []
    send_queue.wake = lambda: woken.append(True)
    return send_queue, woken


def drain(sock):
    received = b""
    try:
        while piece := sock.recv(1 << 20):
            received += piece
    except BlockingIOError:
        pass
    return received


def test_send_queue_sends_at_once_what_the_socket_takes(pair):
    send_queue, woken = box(pair[0])
    with send_queue.locked() as exchange:
        exchange.outgoing += b"word"
    assert (drain(pair[1]), woken) == (b"word", [])


def test_send_queue_wakes_the_reader_for_the_rest(pair):
    send_queue, woken = box(pair[0])
    with send_queue.locked() as exchange:
        exchange.outgoing += b"x" * (1 << 20)
    assert woken == [True]
    received = drain(pair[1])
    while send_queue.flush():
        received += drain(pair[1])
    assert len(received + drain(pair[1])) == 1 << 20


def test_send_queue_cancel_closes_one_direction(pair):
    send_queue, _ = box(pair[0])
    with send_queue.locked() as exchange:
        exchange.cancelled = True
    assert pair[1].recv(1) == b""
    pair[1].send(b"verdict")
    assert pair[0].recv(10) == b"verdict"


def test_send_queue_closed_sends_nothing(pair):
    send_queue, woken = box(pair[0])
    send_queue.close()
    with send_queue.locked() as exchange:
        assert exchange is None
    send_queue.exchange.outgoing += b"late"
    assert not send_queue.flush()
    assert (drain(pair[1]), woken) == (b"", [])


def test_send_queue_keeps_messages_of_threads_whole(pair):
    send_queue, _ = box(pair[0])

    def send(number):
        for _ in range(50):
            with send_queue.locked() as exchange:
                exchange.outgoing += bytes([number]) * 10

    threads = [threading.Thread(target=send, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    received = b""
    while any(thread.is_alive() for thread in threads) or send_queue.flush():
        received += drain(pair[1])
    received += drain(pair[1])
    assert len(received) == 2000
    assert all(len(set(received[at : at + 10])) == 1 for at in range(0, 2000, 10))
