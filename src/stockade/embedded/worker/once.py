"""Inside the sandbox of a run of the metered backend: one script, and its report as that of every Python job."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

from stockade.embedded.boundary.settings import FROZEN_CLOCK
from stockade.embedded.endings import Exhausted, Failed, Uncrossable
from stockade.embedded.engine import Engine
from stockade.embedded.sink import Sink
from stockade.embedded.worker.agent import Limits

if TYPE_CHECKING:
    from typing import NoReturn

_CAPS = ("fuel", "heap_objects", "frames", "deadline", "symbols", "value_bytes")


class Reporter(Protocol):
    """The agent of every Python job, ``python_agent``, which knows the form of a report."""

    EXHAUSTED: int
    """The exit status of a job that has used up its operations."""

    def content(self, path: str) -> bytes:
        """Return the content of a file."""

    def succeed(self, value: Any) -> None:
        """Report the value of a script."""

    def dumps(self, value: Any) -> str:
        """Return ``value`` as JSON."""

    def write_line(self, body: str) -> None:
        """Write one line of the report."""


class Stdout(Sink):
    """Passes text on to standard output, which the warden reads and bounds."""

    def write(self, text: str) -> None:
        """Write ``text``."""
        sys.stdout.write(text)


class Once:
    """A single run of the file ``script`` under ``caps``. A cap that is not in there is lifted."""

    def __init__(self, caps: dict[str, int], script: str, reporter: Reporter) -> None:
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
        limits = Limits(dict.fromkeys(_CAPS) | caps)
        self._engine = Engine(limits, clock=FROZEN_CLOCK, seed=0, sink=Stdout())
        self._script, self._name = script, script.rpartition("/")[2]
        self._reporter, self._caps = reporter, caps

    def run(self) -> NoReturn:
        """Run the script, report, and end the process: no code of the script runs after the report."""
        status = 1
        try:
            status = self._status()
            if "fuel" in self._caps:
                self._line({"operations": self._engine.fuel})
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)

    def _status(self) -> int:
        try:
            value = self._engine.run(self._reporter.content(self._script).decode("utf-8-sig"), self._name)
            if value is not None:
                self._reporter.succeed(value)
        except Uncrossable as error:
            self._line({"repr": f"<no data: {error}>"})
        except UnicodeDecodeError as error:
            return self._failed("SyntaxError", f"the source is not UTF-8: {error.reason}")
        except Failed as error:
            kind, message, line = error.args
            return self._failed(kind, message, line)
        except Exhausted as error:
            return self._exhausted(*error.args)
        except BaseException as error:  # an interrupt, or a fault of the engine
            return self._failed(type(error).__name__, str(error))
        return 0

    def _exhausted(self, cap: str, figure: float, line: int) -> int:
        if cap not in self._caps:  # without a cap on frames, the interpreter's own
            return self._failed("RecursionError", "calls are nested too deep", line)
        if cap != "fuel":
            return self._failed("ResourceExhausted", f"{cap}: the script reached the cap of {figure}", line)
        self._error("ResourceExhausted", f"fuel: {figure} units are used up", line)
        return self._reporter.EXHAUSTED

    def _failed(self, kind: str, message: str, line: int = 0) -> int:
        sys.stdout.flush()
        sys.stderr.write(self._error(kind, message, line))
        return 130 if kind == "KeyboardInterrupt" else 1

    def _error(self, kind: str, message: str, line: int) -> str:
        """Report an error, and return the text that describes it."""
        where = f'  File "{self._name}", line {line}\n' if line else ""
        text = f"{where}{kind}: {message}".removesuffix(": ") + "\n"
        self._line({"error": {"type": kind, "message": message, "traceback": text}})
        return text

    def _line(self, report: dict[str, Any]) -> None:
        self._reporter.write_line(self._reporter.dumps(report))
