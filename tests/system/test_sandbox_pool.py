"""Sandboxes that wait in a pool: each is handed out once, with its interpreter, and nothing is left of the others."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest
from tests.support import host

import stockade
from stockade import AsyncSandboxPool, JobError, Sandbox, SandboxPool, SetupError
from stockade.client import warden_process

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that a second after each test nothing is left of it."""
    with host.as_before():
        yield


def create() -> Sandbox:
    return Sandbox.create(timeout=30, environment={"COLOUR": "red"})


def test_pool_hands_out_each_sandbox_once() -> None:
    with SandboxPool(create, size=2, preload=["wave"]) as pool:
        pool.fill()
        waited = list(pool._waiting)
        assert [each.paused for each in waited] == [True, True]
        first, second = pool.take(), pool.take()
        with first, second:
            assert [first.id, second.id] == [each.id for each in waited]
            py = first.interpreter()
            cell = py.run("import os, sys; 'wave' in sys.modules, os.environ['COLOUR'], 'wave' in globals()")
            assert (cell.value_repr, cell.execution_count) == ("(True, 'red', False)", 1)
            assert len(first._processes) == 1  # the one that waited
            first.files.write("note", "mine")
            assert not second.files.exists("note")
            with first.interpreter() as fresh:
                assert fresh.run("'os' in globals()").value_repr == "False"
            assert second.interpreter(preload=["wave", "colorsys"]).run("1 + 1").value_repr == "2"
            assert len(second._processes) == 3  # the one that waits imported less; files have an agent too
            pool.fill()
            assert not {first.id, second.id} & {each.id for each in pool._waiting}


def test_taken_sandboxes_outlive_their_pool() -> None:
    pool = SandboxPool(create, language=None)
    with pool.take() as sandbox:
        pool.close()
        pool.close()
        assert pool.waiting == 0
        sandbox.run_command(["true"]).check()
        with pytest.raises(JobError, match="the pool was closed"):
            pool.take()


def test_sandboxes_that_ended_while_they_waited_are_replaced() -> None:
    with SandboxPool(create, size=2) as pool:
        pool.fill()
        os.kill(warden_process.current().pid, signal.SIGKILL)
        with pool.take() as sandbox:
            assert sandbox.interpreter().run("1 + 1").value_repr == "2"
        pool.fill()  # the new warden's freezer removes the groups of the dead one


def test_errors_of_a_pool_reach_its_callers() -> None:
    def broken() -> Sandbox:
        raise ZeroDivisionError("no sandbox")

    with SandboxPool(broken) as pool:
        for method in (pool.take, pool.fill):
            with pytest.raises(ZeroDivisionError, match="no sandbox"):
                method()
    with SandboxPool(create, preload=["no_such_module"]) as pool:
        with pytest.raises(SetupError, match=r"does not start: .* No module named 'no_such_module'"):
            pool.take()
        assert pool.waiting == 0


def test_sandbox_that_cannot_wait_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: Sandbox) -> None:
        raise OSError("no pause")

    made: list[Sandbox] = []
    monkeypatch.setattr(Sandbox, "pause", fail)
    with SandboxPool(lambda: made.append(create()) or made[-1], language=None) as pool:
        with pytest.raises(OSError, match="no pause"):
            pool.fill()
        for each in made:
            with pytest.raises(stockade.SandboxClosed):
                each.usage()


def test_asyncio_pool_hands_out_asyncio_sandboxes() -> None:
    async def main() -> None:
        async with AsyncSandboxPool(create) as pool:
            await pool.fill()
            async with await pool.take() as sandbox:
                assert isinstance(sandbox, stockade.AsyncSandbox)
                python = await sandbox.interpreter()
                assert (await python.run("1 + 1")).value_repr == "2"

    asyncio.run(main())
