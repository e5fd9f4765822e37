"""The socket between front and service worker, of which either end may be replaced in the middle of a message."""

import asyncio
import socket
from contextlib import closing

import pytest

from stockade.service.living import channel
from stockade.service.living.channel import ANSWER, CALL, CANCEL, LONGEST, Channel, TooLongError

FIRST, SECOND = "a" * 16, "b" * 16


def test_messages_of_several_calls_arrive_whole():
    async def main():
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with closing(one), closing(two):
            sender, messages = Channel(one), Channel(two).messages()
            large, small = bytes(range(256)) * 4096, b"small"
            sent = [
                asyncio.create_task(sender.send(CALL, FIRST, large)),
                asyncio.create_task(sender.send(ANSWER, SECOND, small)),
            ]
            async with asyncio.timeout(60):
                found = [await anext(messages) for _ in sent]
            assert found == [(ANSWER, SECOND, small), (CALL, FIRST, large)]  # the small one need not wait for the large
            with pytest.raises(TooLongError):
                await sender.send(CALL, FIRST, bytes(LONGEST + 1))

    asyncio.run(main())


def test_pieces_of_a_lost_sender_do_no_harm(monkeypatch):
    """The first sender ends after half of a message; pieces that nobody completes are bounded."""

    async def main():
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with closing(one), closing(two):
            receiver = Channel(two)
            messages = receiver.messages()
            one.send(CALL + b"+" + FIRST.encode() + b"half")
            await Channel(one).send(CANCEL, FIRST)
            assert await anext(messages) == (CANCEL, FIRST, b"")
            assert not receiver._parts
            for number in range(20):
                one.send(CALL + b"+" + f"{number:016}".encode() + bytes(1000))
            await Channel(one).send(CALL, SECOND, b"whole")
            assert await anext(messages) == (CALL, SECOND, b"whole")
            assert sum(map(len, receiver._parts.values())) <= 5000
            receiver.forget()
            assert not receiver._parts

    monkeypatch.setattr(channel, "_MOST_BYTES", 5000)
    asyncio.run(main())
