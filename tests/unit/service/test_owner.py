"""Calls in sandboxes as the service worker answers them, with a sandbox that is none."""

import asyncio
import socket
from contextlib import closing
from types import SimpleNamespace

import pytest

from stockade.service.database import Database
from stockade.service.keys import Keys
from stockade.service.living import channel
from stockade.service.living.channel import ANSWER, CALL, CANCEL, Channel
from stockade.service.living.owner import Owner
from stockade.service.living.register import Register
from stockade.service.living.requests import Answer, Call, packed, unpacked
from stockade.service.requests import Policies
from stockade.service.settings import Settings

NAME, HOLDER = "a" * 16, "worker"


class Kept:
    """A sandbox whose end takes as long as the test wants."""

    def __init__(self, key):
        self.sandbox, self.key = SimpleNamespace(id="s"), key
        self.closing, self.may_close = asyncio.Event(), asyncio.Event()

    async def read(self, _path, _most):
        return bytes(1000)

    async def close(self):
        self.closing.set()
        try:
            await self.may_close.wait()
        except asyncio.CancelledError:
            await self.may_close.wait()  # as a real one waits for its end
            raise


@pytest.fixture
def register(tmp_path):
    with closing(Database(tmp_path)) as database:
        Keys(database).add("ann")
        yield Register(database)


def with_owner(tmp_path, register, test):
    """Run ``test`` with a function that sends a call, the front's end of the socket, the owner, and its sandbox."""

    async def main():
        settings = Settings(tmp_path)
        register.add("s", key=1, holder=HOLDER, labels={}, idle=1.0, lifetime=1.0)
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with closing(one), closing(two):
            front, owner, kept = (
                Channel(one),
                Owner(settings, Policies(settings), register, Channel(two), HOLDER),
                Kept(1),
            )
            owner._sandboxes._kept["s"] = kept
            serving = asyncio.create_task(owner.serve())

            async def send(do):
                call = Call(do=do, holder=HOLDER, key=1, key_name="ann", sandbox="s", path="x")
                await front.send(CALL, NAME, packed(call, b""))

            async with asyncio.timeout(60):
                await test(send, front, owner, kept)
                serving.cancel()

    asyncio.run(main())


def test_answer_that_is_too_long_is_refused_with_the_reason(tmp_path, register, monkeypatch):
    monkeypatch.setattr(channel, "LONGEST", 500)

    async def test(send, front, _owner, _kept):
        await send("read")
        kind, name, message = await anext(front.messages())
        head, body = unpacked(message)
        assert (kind, name, Answer.model_validate_json(head).status) == (ANSWER, NAME, 409)
        assert b"500 is the most" in body

    with_owner(tmp_path, register, test)


def test_end_whose_client_goes_away_is_written(tmp_path, register):
    async def test(send, front, owner, kept):
        await send("close")
        await kept.closing.wait()
        await front.send(CANCEL, NAME)
        closing_all = asyncio.create_task(owner.close())
        await asyncio.sleep(0)
        kept.may_close.set()
        await closing_all
        found = register.find(1, "s")
        assert (found.state, found.reason) == ("closed", "its owner closed it")

    with_owner(tmp_path, register, test)
