"""Sandboxes that live, for asyncio: the same methods, and a cancelled task ends what it waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from tests.support import host

import stockade
from stockade import AsyncSandbox, CellOutcome, JobError, Outcome, SandboxClosed

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    with host.as_before():
        yield


def in_sandbox(test, **options):
    """Run a coroutine function with a sandbox of its own."""

    async def main():
        async with await AsyncSandbox.create(**{"timeout": 20, **options}) as sandbox:
            await test(sandbox)
        assert sandbox.closed
        assert sandbox.result.outcome is Outcome.CANCELLED

    asyncio.run(main())


def test_commands_run_at_a_time_in_one_thread():
    async def test(sandbox):
        waits = sandbox.run_command(["sh", "-c", "while ! test -e /tmp/go; do sleep 0.01; done; cat"], stdin="in")
        waits, goes = await asyncio.gather(waits, sandbox.run_command(["touch", "/tmp/go"]))
        assert (waits.stdout, goes.outcome) == ("in", Outcome.COMPLETED)
        late = await sandbox.run_command(["sleep", "60"], timeout=0.3)
        assert (late.outcome, late.limit) == (Outcome.LIMIT_EXCEEDED, "wall_time")
        with pytest.raises(JobError, match="a call can only lower that"):
            await sandbox.run_command(["true"], timeout=60)
        with pytest.raises(TypeError, match="did you mean"):
            await sandbox.run_command(["true"], timeot=6)
        assert (await sandbox.usage()).wall_seconds > 0

    in_sandbox(test)


def test_cancelled_task_ends_its_command_and_not_the_sandbox():
    async def test(sandbox):
        task = asyncio.create_task(sandbox.run_command(["sh", "-c", "echo $$ > pid; sleep 60"]))
        while not await sandbox.files.exists("pid"):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gone = ["sh", "-c", "for i in $(seq 200); do kill -0 $(cat pid) || exit 7; sleep 0.02; done"]
        assert (await sandbox.run_command(gone)).exit_code == 7

    in_sandbox(test)


def test_process_streams_signals_and_end():
    async def test(sandbox):
        code = "for line in iter(input, 'end'): print(line.upper(), flush=True)"
        async with await sandbox.start_command(["python3", "-c", code]) as process:
            await process.stdin.write(b"hello\nyou\n")
            assert await process.stdout.readline(10) == b"HELLO\n"
            with pytest.raises(TimeoutError):
                await process.stdout.read_exactly(5, 0.2)
            assert await process.stdout.read(100, 10) == b"YOU\n"
            await process.stdin.write(b"end\n")
            assert (await process.wait(10)).outcome is Outcome.COMPLETED
            assert await process.stdout.read() == b""
            with pytest.raises(BrokenPipeError):
                await process.stdin.write(b"more")
        stopped = await sandbox.start_command(["sleep", "60"])
        with pytest.raises(TimeoutError, match=r"sleep has not ended within 0\.1 s"):
            await stopped.wait(0.1)
        stopped.terminate()
        assert ((await stopped.wait(10)).signal, stopped.returncode) == (15, -15)
        lines = await sandbox.start_command(["seq", "3"])
        assert [line async for line in lines.stdout] == [b"1\n", b"2\n", b"3\n"]

    in_sandbox(test)


def test_running_processes_are_listed():
    async def test(sandbox):
        waiting, terminal = await sandbox.start_command(["sleep", "60"]), await sandbox.terminal(["cat"])
        assert await sandbox.files.exists(".")
        assert sandbox.processes == (waiting, terminal)
        await waiting.kill()
        assert sandbox.processes == (terminal,)

    in_sandbox(test)


def test_flood_of_a_process_waits_while_the_loop_goes_on():
    async def test(sandbox):
        flood = await sandbox.start_command(["sh", "-c", "head -c 8000000 /dev/zero; echo end >&2; cat >/dev/null"])
        await asyncio.sleep(0.5)
        assert len(flood._inner.stdout._waiting) <= 2 << 20  # the window, and not the flood
        with pytest.raises(TimeoutError):
            await flood.stderr.readline(0.1)
        assert len(await flood.stdout.read_exactly(8_000_000, 20)) == 8_000_000
        assert await flood.stderr.readline(10) == b"end\n"
        await asyncio.wait_for(flood.stdin.write(bytes(4 << 20)), 10)
        await flood.stdin.write(b"x", 10)
        flood.stdin.close()
        assert (await flood.wait(10)).outcome is Outcome.COMPLETED

    in_sandbox(test)


def test_process_ends_with_its_sandbox():
    async def test(sandbox):
        process = await sandbox.start_command(["sleep", "60"])
        waits = asyncio.create_task(process.wait())
        await asyncio.sleep(0)
        await sandbox.close()
        assert (await waits).outcome is not Outcome.COMPLETED
        with pytest.raises(SandboxClosed):
            await sandbox.run_command(["true"])

    in_sandbox(test)


def test_terminal_talks_resizes_and_hangs_up():
    async def test(sandbox):
        async with await sandbox.terminal(["sh", "-c", "read x; stty size; cat"], rows=30) as terminal:
            terminal.resize(40, 100)
            await terminal.write(b"\n")
            seen = b""
            while b"40 100" not in seen:
                seen += await terminal.read(timeout=10)
        assert (await terminal.wait()).signal == 1

    in_sandbox(test)


def test_cancelled_cell_is_interrupted_and_its_state_stays():
    async def test(sandbox):
        async with await sandbox.interpreter() as py, await sandbox.shell() as shell:
            assert (await py.run("x = 21")).outcome is CellOutcome.COMPLETED
            begin = time.monotonic()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(py.run("import time; time.sleep(15)"), 0.3)
            assert time.monotonic() - begin < 5
            cell, command = await asyncio.gather(py.run("x * 2"), shell.run("cd /tmp; pwd"))
            assert (cell.value_repr, command.stdout) == ("42", "/tmp\n")
            slow = asyncio.create_task(py.run("import time; time.sleep(15)"))
            while not await py.interrupt():
                await asyncio.sleep(0.01)
            assert (await slow).outcome is CellOutcome.INTERRUPTED
            assert py.alive
        assert not py.alive

    in_sandbox(test)


def test_fork_of_an_interpreter_runs_at_the_same_time():
    async def test(sandbox):
        async with await sandbox.interpreter() as py:
            await py.run("x = 20")
            async with await py.fork() as fork:
                wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nx + 1"
                waits, goes = await asyncio.gather(py.run(wait), fork.run("x += 2\nopen('go', 'w').close()\nx"))
                assert (waits.value_repr, goes.value_repr) == ("21", "22")
            assert not fork.alive
            assert (await py.run("x")).value_repr == "20"

    in_sandbox(test)


def test_cancelled_cell_of_another_turn_leaves_the_running_one():
    async def test(sandbox):
        async with await sandbox.interpreter() as py:
            first = asyncio.create_task(py.run("import time; time.sleep(1); 5"))
            await asyncio.sleep(0.1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(py.run("6"), 0.2)
            assert (await first).value_repr == "5"

    in_sandbox(test)


def test_files_are_those_of_the_sandbox():
    async def test(sandbox):
        await sandbox.files.write("a/b", b"\xff\x00")
        assert (await sandbox.run_command(["wc", "-c", "a/b"])).stdout == "2 a/b\n"
        assert [each.path for each in await sandbox.files.list("a")] == ["b"]
        with pytest.raises(FileNotFoundError):
            await sandbox.files.read_text("nothing")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sandbox.files.write("big", bytes(24 << 20)), 0.005)
        assert not await sandbox.files.exists("big")
        assert await sandbox.files.read_bytes("a/b") == b"\xff\x00"

    in_sandbox(test)


def test_cancelled_creation_leaves_no_sandbox():
    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(AsyncSandbox.create(timeout=20), 0.001)

    asyncio.run(main())


def test_wrong_arguments_raise_what_the_blocking_method_raises():
    async def main():
        with pytest.raises(stockade.PolicyError):
            await AsyncSandbox.create(memory="nothing")
        with pytest.raises(stockade.JobError, match="idle_timeout"):
            await AsyncSandbox.create(idle_timeout=-1)

    asyncio.run(main())
