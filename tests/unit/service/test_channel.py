"""The socket between front and service worker, of which either end may be replaced in the middle of a message."""

import asyncio
import socket
from contextlib import asynccontextmanager, closing

import pytest

from stockade.service.living import channel
from stockade.service.living.calls import Calls
from stockade.service.living.channel import ANSWER, CALL, CANCEL, LONGEST, Channel, TooLongError

FIRST, SECOND = "a" * 16, "b" * 16
PIECE = 1 << 16


@asynccontextmanager
async def pair():
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with closing(one), closing(two):
        async with asyncio.timeout(60):
            yield (one, two), Channel(one), Channel(two)


def test_messages_of_several_calls_arrive_whole():
    async def main():
        async with pair() as (_, sender, receiver):
            messages = receiver.messages()
            large, small = bytes(range(256)) * 4096, b"small"
            sent = [
                asyncio.create_task(sender.send(CALL, FIRST, large)),
                asyncio.create_task(sender.send(ANSWER, SECOND, small)),
            ]
            found = [await anext(messages) for _ in sent]
            assert found == [(ANSWER, SECOND, small), (CALL, FIRST, large)]  # the small one need not wait for the large
            with pytest.raises(TooLongError):
                await sender.send(CALL, FIRST, bytes(LONGEST + 1))

    asyncio.run(main())


def test_many_large_messages_at_a_time_arrive_whole(monkeypatch):
    """The receiver drops incomplete messages beyond a bound, which those of one sender never meet."""
    monkeypatch.setattr(channel, "_MOST_BYTES", 4 * 5 * PIECE)

    async def main():
        async with pair() as (_, sender, receiver):
            messages = receiver.messages()
            sent = {f"{number:016}": bytes([number]) * 5 * PIECE for number in range(20)}
            tasks = [asyncio.create_task(sender.send(CALL, name, content)) for name, content in sent.items()]
            found = [await anext(messages) for _ in tasks]
            assert {name: content for _, name, content in found} == sent

    asyncio.run(main())


@pytest.mark.parametrize("pieces", [1, 2])
def test_rest_of_a_message_is_never_a_message(pieces):
    """A client chooses the bytes of a file, so it chooses what a successor would read first."""

    async def main():
        async with pair() as ((one, two), sender, receiver):
            forged = b'{"do": "close"}\n' + bytes(PIECE)
            sending = asyncio.create_task(sender.send(CALL, FIRST, bytes(PIECE) * pieces + forged))
            for _ in range(pieces):
                await asyncio.get_running_loop().sock_recv(two, 2 * PIECE)  # by a process that is killed then
            messages = receiver.messages()
            ended = asyncio.create_task(anext(messages))
            await sending
            one.send(b"c")  # too short for a name
            await sender.send(CANCEL, SECOND)
            assert await ended == (CANCEL, SECOND, b"")
            assert not receiver._parts

    asyncio.run(main())


def test_pieces_of_a_lost_sender_do_no_harm(monkeypatch):
    """The first sender ends after half of a message; pieces that nobody completes are bounded."""
    monkeypatch.setattr(channel, "_MOST_BYTES", 5000)

    async def main():
        async with pair() as ((one, _), sender, receiver):
            messages = receiver.messages()
            one.send(CALL + b"\1" + FIRST.encode() + b"half")
            await sender.send(CANCEL, FIRST)
            assert await anext(messages) == (CANCEL, FIRST, b"")
            assert not receiver._parts
            for number in range(20):
                one.send(CALL + b"\1" + f"{number:016}".encode() + bytes(1000))
            await sender.send(CALL, SECOND, b"whole")
            assert await anext(messages) == (CALL, SECOND, b"whole")
            assert 0 < sum(map(len, receiver._parts.values())) <= 5000
            calls = Calls()
            calls.channel = receiver
            calls.follow("the next worker")
            assert not receiver._parts

    asyncio.run(main())
