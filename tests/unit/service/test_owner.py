"""Calls in sandboxes as the service worker answers them, with an object in the place of a sandbox."""

import asyncio
import socket
from contextlib import closing
from types import SimpleNamespace

import pytest

from stockade.service.database import Database
from stockade.service.keys import Keys
from stockade.service.living import channel, terminals
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


class Terminal:
    """A terminal whose end takes as long as the test wants."""

    def __init__(self):
        self.hung_up, self.may_end, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def read(self, _size):
        return b"x"

    async def close(self):
        self.hung_up.set()
        await self.may_end.wait()
        self.ended.set()


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

            async def send(do, name=NAME, body=b"", **what):
                call = Call(**{"do": do, "holder": HOLDER, "key": 1, "key_name": "ann", "sandbox": "s"} | what)
                await front.send(CALL, name, packed(call, body))

            async with asyncio.timeout(60):
                await test(send, front, owner, kept)
                serving.cancel()

    asyncio.run(main())


def test_answer_that_is_too_long_is_refused_with_the_reason(tmp_path, register, monkeypatch):
    monkeypatch.setattr(channel, "LONGEST", 500)

    async def test(send, front, _owner, _kept):
        await send("read", path="x")
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


def test_terminal_is_reached_only_through_its_own_sandbox(tmp_path, register, monkeypatch):
    """A call names a sandbox and a terminal, and whoever forges one has only names. The hang-up outlives two ends."""

    async def test(send, front, owner, kept):
        monkeypatch.setattr(terminals, "MOST_OF_KEY", 1)

        async def check():
            pass

        async def start(*_arguments, **_options):
            return terminal

        terminal, other = Terminal(), Kept(1)
        kept.sandbox.terminal, other.check = start, check
        owner._sandboxes._kept["other"] = other
        answers = front.messages()
        await send("terminal", terminal="t", body=b"{}")
        for what, status in (({}, 200), ({"sandbox": "other"}, 410), ({"terminal": "u"}, 410), ({"key": 2}, 410)):
            kept.check = check
            await send("screen", "b" * 16, **{"terminal": "t"} | what)
            kind, _, message = await anext(answers)
            assert (kind, Answer.model_validate_json(unpacked(message)[0]).status) == (ANSWER, status), what
        await send("terminal", "c" * 16, terminal="v", body=b"{}")
        assert Answer.model_validate_json(unpacked((await anext(answers))[2])[0]).status == 429
        await front.send(CANCEL, NAME)
        await terminal.hung_up.wait()
        owner.leave()
        terminal.may_end.set()
        await asyncio.wait_for(terminal.ended.wait(), 30)

    with_owner(tmp_path, register, test)
