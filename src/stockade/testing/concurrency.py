"""Many runs at once, cancelled runs, forked callers, and leaks."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

import stockade
from stockade.linux import places
from stockade.testing.base import Expectations

_MARK = f"86397.{os.getpid()}"  # unique, because another process can run the same test


class ConcurrencyContract(Expectations):
    """Runs from threads, tasks and forked processes do not disturb each other, and leave nothing."""

    def test_many_threads_at_once_all_complete(self) -> None:
        results: dict[int, str] = {}

        def work(number: int) -> None:
            results[number] = self.run_source(f"print({number})").stdout

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {number: f"{number}\n" for number in range(16)}

    def test_many_tasks_at_once_all_complete(self) -> None:
        async def main() -> list[stockade.Result]:
            async with stockade.AsyncRunner(self.policy(), backend=self.backend) as box:
                return await asyncio.gather(*(box.run_command(["echo", str(number)]) for number in range(16)))

        assert [result.stdout for result in asyncio.run(main())] == [f"{number}\n" for number in range(16)]

    def test_cancelled_task_ends_its_run(self) -> None:
        async def main() -> stockade.Result:
            async with stockade.AsyncRunner(self.policy(), backend=self.backend) as box:
                task = asyncio.create_task(box.run_command(["sleep", _MARK]))
                await asyncio.sleep(0.3)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                return await box.run_command(["echo", "next"])

        assert asyncio.run(main()).stdout == "next\n"

    def test_forked_caller_gets_its_own_warden(self) -> None:
        with stockade.Runner(self.policy(), backend=self.backend) as box:
            assert box.run_command(["echo", "1"]).stdout == "1\n"
            pid = os.fork()
            if pid == 0:
                os._exit(0 if self.run_command(["echo", "2"]).stdout == "2\n" else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert box.run_command(["echo", "3"]).stdout == "3\n"

    def test_temporary_folder_is_empty_after_runs(self) -> None:
        before = set(_folders())
        for code in ("exit 0", "kill -9 $$", "mkdir -p a/b; mkfifo p; ln -s / l; chmod 0 a 2>/dev/null; exit 1"):
            self.run_command(["/bin/sh", "-c", code])
        deadline = threading.Event()
        for _ in range(200):
            if not set(_folders()) - before:
                return
            deadline.wait(0.02)
        pytest.fail(f"left: {set(_folders()) - before}")

    def test_process_never_outlives_its_run(self) -> None:
        self.run_command(["/bin/sh", "-c", f"setsid sleep {_MARK} & (sleep {_MARK} &) ; sleep 0.1"])
        assert sleepers(_MARK) == []


def _folders() -> list[str]:
    """Return the folders that runs of this process made."""
    own = Path(places.name(""))
    return [entry.name for entry in own.parent.iterdir() if entry.name.startswith(own.name)]


def sleepers(mark: str) -> list[str]:
    """Return the pids of processes whose command line contains ``mark``."""
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and mark in _command_line(entry)]


def _command_line(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
