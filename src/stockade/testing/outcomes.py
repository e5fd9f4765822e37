"""The end of a run, and the result that reports it."""

from __future__ import annotations

import signal

import pytest

from stockade import Guarantee, Outcome
from stockade.testing.base import Expectations, Run


class OutcomesContract(Expectations):
    """Outcomes, exit statuses, signals and errors match the guest's end."""

    def test_program_that_returns_is_completed(self, run: Run) -> None:
        result = run("print(sum(range(10)))")
        assert (result.outcome, result.exit_code, result.stdout, result.stderr) == (Outcome.COMPLETED, 0, "45\n", "")
        assert set(result.enforcement) == set(Guarantee)

    @pytest.mark.parametrize("code", [1, 2, 124, 125, 126, 127, 130, 137, 255])
    def test_exit_status_of_guest_is_passed_on(self, run: Run, code: int) -> None:
        result = run(f"import sys; sys.exit({code})")
        if not self.tells_signals and code - 128 in signal.valid_signals():
            assert (result.outcome, result.signal, result.limit) == (Outcome.CRASHED, code - 128, None)
        else:
            assert (result.outcome, result.exit_code, result.limit) == (Outcome.FAILED, code, None)

    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
    def test_death_by_signal_is_a_crash(self, run: Run, number: int) -> None:
        result = run(f"import os; os.kill(os.getpid(), {int(number)})")
        assert (result.outcome, result.exit_code, result.signal) == (Outcome.CRASHED, None, number)

    def test_exception_fails_with_own_frames_only(self, run: Run) -> None:
        result = run("def f():\n    return 1 / 0\n\nf()\n")
        assert (result.outcome, result.exit_code) == (Outcome.FAILED, 1)
        assert result.error is not None
        assert (result.error.type, result.error.message) == ("ZeroDivisionError", "division by zero")
        assert result.error.traceback == result.stderr
        assert "main.py" in result.stderr
        assert "agent" not in result.stderr
        assert result.stderr.count("File ") == 2

    def test_syntax_error_fails_by_name(self, run: Run) -> None:
        result = run("x = = 1")
        assert result.error is not None
        assert (result.outcome, result.error.type) == (Outcome.FAILED, "SyntaxError")
        assert "agent" not in result.stderr

    @pytest.mark.parametrize(("argv", "code", "kind"), [
        (["no-such-program"], 127, "CommandNotFound"),
        (["/no/such/program"], 127, "CommandNotFound"),
        (["/usr"], 126, "NotExecutable"),
    ])  # fmt: skip
    def test_command_not_executable_fails_by_name(self, argv: list[str], code: int, kind: str) -> None:
        result = self.run_command(argv)
        assert result.error is not None
        assert (result.outcome, result.exit_code, result.error.type) == (Outcome.FAILED, code, kind)
        assert argv[0] in result.error.message

    def test_run_ends_with_its_first_process(self) -> None:
        result = self.run_command(["/bin/sh", "-c", "sleep 60 & sleep 61 & exit 5"])
        assert (result.outcome, result.exit_code) == (Outcome.FAILED, 5)
        assert result.usage.wall_seconds < 30
