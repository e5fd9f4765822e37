"""The classes for asyncio have the methods of the blocking ones, with the same arguments."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time

import pytest

import stockade
from stockade.api.asynchronous.process import AsyncProcessInput, AsyncProcessOutput
from stockade.api.asynchronous.threads import in_thread
from stockade.api.process import ProcessInput, ProcessOutput

PAIRS = [
    (stockade.Sandbox, stockade.AsyncSandbox),
    (stockade.SandboxPool, stockade.AsyncSandboxPool),
    (stockade.Process, stockade.AsyncProcess),
    (stockade.Terminal, stockade.AsyncTerminal),
    (stockade.Interpreter, stockade.AsyncInterpreter),
    (stockade.Shell, stockade.AsyncShell),
    (stockade.Files, stockade.AsyncFiles),
    (stockade.Watch, stockade.AsyncWatch),
    (ProcessInput, AsyncProcessInput),
    (ProcessOutput, AsyncProcessOutput),
]


def arguments(value):
    """Return the arguments of a method, without their types for what is a plain value."""
    return [(each.name, each.kind, each.default) for each in inspect.signature(value).parameters.values()]


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS, ids=lambda each: each.__name__)
def test_asyncio_methods_take_the_blocking_arguments(blocking, asynchronous):
    names = [name for name in dir(blocking) if not name.startswith("_")]
    assert [name for name in names if not hasattr(asynchronous, name)] == []
    for name in names:
        ours, theirs = getattr(asynchronous, name), getattr(blocking, name)
        if callable(theirs):
            assert arguments(ours) == arguments(theirs), name
            assert ours.__doc__


def test_call_in_a_thread_returns_and_raises():
    async def main():
        assert await in_thread(lambda: 5) == 5
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0)

    asyncio.run(main())


def test_cancelled_call_in_a_thread_is_stopped_and_undone():
    made, undone = threading.Event(), []

    def call():
        assert made.wait(10)
        return "made"

    async def main():
        task = asyncio.create_task(in_thread(call, stop=lambda _ended: made.set(), undo=undone.append))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    begin = time.monotonic()
    asyncio.run(main())
    assert undone == ["made"]
    assert time.monotonic() - begin < 5
