"""An interpreter or shell behind its agent: start, one cell at a time, interrupt, restart, end."""

from __future__ import annotations

import copy
import secrets
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from stockade.api.exec_limits import checked_seconds
from stockade.api.sessions.agents import AgentProcess
from stockade.api.sessions.channels import Channel, Channels
from stockade.api.sessions.functions import Functions
from stockade.api.sessions.gathered import Gathered, reason, was_interrupted
from stockade.api.sessions.link import Link, SessionEnded
from stockade.api.sessions.records import (
    CellLimits,
    CellOutcome,
    CellOutput,
    CellUsage,
    Display,
    OnEvent,
    decoded,
    display_of,
    number_of,
    omitted_of,
    text_of,
)
from stockade.core.errors import JobError, SetupError

_AGENT = "session_agent.py"
_START_SECONDS = 30.0
_INTERRUPT_SECONDS = 5.0
"""A cell that is interrupted because its time is over has this long to end before its interpreter is killed."""
_KILL_SECONDS = 5.0
"""The agent has this long to kill the interpreter before the agent itself is killed."""
_LIMIT_SECONDS = 0.5
_LONGEST_SOURCE = 16 << 20
_SLACK = 2 << 20
"""Bytes of a frame beside the displays: two texts of 64 Ki characters, of which each takes up to 12 bytes as JSON."""
_ERROR_KEPT = 4096
_STOPPED = "the caller stopped waiting for its cell"
_STOPPED_FORK = "the caller stopped waiting for its copy"


class _CallbackError(Exception):
    """An error of the caller's ``on_event``, which must not pass for one of the agent."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class Session:
    """An interpreter or a shell, in a process of the sandbox that ``open_process`` starts."""

    def __init__(
        self,
        open_process: Callable[[], AgentProcess],
        start: dict[str, Any],
        what: str,
        limits: CellLimits,
        longest: float,
        *,
        functions: Functions | None = None,
    ) -> None:
        self._functions = functions or Functions({}, 0)
        self._runner = 0  # the thread that runs a cell, and the functions and callbacks of it
        self._open, self._start, self.what, self.limits, self._longest = open_process, start, what, limits, longest
        self._link: Channel | None = None
        self._turn = threading.Lock()
        self._interrupted = False
        self._running = ""
        self.ended = ""
        self.count = 0
        self.hello: dict[str, Any] = {}
        self.restart()

    def restart(self) -> None:
        """Start afresh: kill every process of the session, and forget all state.

        A cell that runs in another thread ends as ``died``.
        """
        self._check_thread("restart")
        link = self._link
        if self._running and link is not None:
            with suppress(OSError, EOFError):
                link.send(b"K")
        with self._turn:
            self.count, self.ended = 0, "it did not start"
            if self._link is not None:
                try:
                    self._begin(self._link)
                    return
                except (OSError, EOFError, ValueError) as error:
                    self._drop(str(error) or "no answer in time")  # the agent is gone too: start another
            process = self._open()
            try:
                self._link = self._connected(process)
                self._begin(self._link)
            except (OSError, EOFError, ValueError) as error:
                process.kill()
                self._drop(str(error) or "no answer in time")
                raise SetupError(f"the {self.what} does not start: {self.ended}") from error

    def _connected(self, process: AgentProcess) -> Channel:
        """Return the first channel of an agent."""
        longest = self.limits.display_bytes + _SLACK
        most = 2 * (self.limits.output + longest)  # a cell gives back less, and one cell runs at a time
        return Channels(Link(process, _AGENT, longest=longest), most=most).open()

    def fork(self) -> Session:
        """Copy the idle interpreter, and return the session of the copy. Raises ``JobError`` if that is refused."""
        if self._running:
            raise JobError(f"fork(): a cell runs in the {self.what}; wait for its end, or interrupt it")
        with self._turn:
            link = self._link
            if self.ended or link is None:
                raise SessionEnded(self._gone())
            twin = copy.copy(self)
            twin._turn, twin._link = threading.Lock(), link.another()
            try:
                self._have_copied(link, twin._link)
                twin.hello = self._until_started(twin._link, link.clock() + _START_SECONDS)
            except BaseException as error:
                twin._link.close()
                if isinstance(error, OSError | EOFError | ValueError):
                    why = str(error) or "it did not start in time"
                    raise SetupError(f"fork(): the copy of the {self.what} does not start: {why}") from error
                raise
            return twin

    def _have_copied(self, link: Channel, twin: Channel) -> None:
        """Have the interpreter fork. One that does not answer ends, because its answer could still come."""
        try:
            link.send(b"F", twin.number)
            kind, payload = link.receive(link.clock() + _START_SECONDS)
            if kind == b"!":
                self.ended = reason(decoded(payload))
                raise SessionEnded(self._gone())
            if kind != b"f":
                raise ValueError("a message of an unknown kind")
            refused = text_of(decoded(payload), "refused")
        except SessionEnded:
            raise
        except (OSError, EOFError, ValueError) as error:
            self._drop(str(error) or "it did not fork in time")
            raise SessionEnded(self._gone()) from error
        except BaseException:  # the caller pressed Ctrl-C
            self._drop(_STOPPED_FORK)
            raise
        if refused:
            raise JobError(f"fork(): {refused[:300]}")

    def _begin(self, link: Channel) -> None:
        link.send(b"S", self._start)
        self.hello = self._until_started(link, link.clock() + _START_SECONDS)
        self.ended = ""

    @staticmethod
    def _until_started(link: Channel, deadline: float) -> dict[str, Any]:
        errors = b""
        while True:
            kind, payload = link.receive(deadline)
            if kind == b"h":
                return decoded(payload)
            if kind == b"!":
                last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2][-200:]
                raise ValueError(f"{reason(decoded(payload))}{': ' if last else ''}{last}")
            errors = (errors + payload)[-_ERROR_KEPT:]

    def interrupt(self) -> bool:
        """Interrupt the running cell; return whether one was running. May be called from any thread."""
        link = self._link
        if not self._running or link is None:
            return False
        self._interrupted = True
        try:
            link.send(b"I")
        except (OSError, EOFError):
            return False
        return True

    def close(self) -> None:
        """End the session. A cell that runs in another thread ends as ``died``."""
        link, self._link = self._link, None
        self.ended = self.ended or "the caller closed it"
        if link is not None:
            link.close()

    def _check_thread(self, action: str) -> None:
        """Refuse what would wait for the end of a cell in the thread that the cell waits for."""
        if self._runner == threading.get_ident():
            raise JobError(f"a function or callback of a cell cannot {action} its own {self.what}")

    def _check(self, source: str, timeout: float) -> None:
        if not isinstance(source, str):
            raise JobError(f"a cell is a text, not {type(source).__name__}")
        if "\0" in source or len(source) > _LONGEST_SOURCE:
            raise JobError(f"a cell has at most {_LONGEST_SOURCE >> 20} MiB and no NUL character")
        if not 0 < timeout <= self._longest:
            raise JobError(
                f"timeout = {timeout!r}: a cell has more than 0 and at most {self._longest:g} s, as the policy "
                f"of its sandbox says; create the sandbox with a higher timeout"
            )

    def run(self, source: str, timeout: float | None, on_event: OnEvent | None) -> Gathered:
        """Run one cell to its end. Without ``timeout``, it may take as long as the policy allows."""
        seconds = self._longest if timeout is None else checked_seconds("timeout", timeout)
        self._check(source, seconds)
        self._check_thread("run another cell of")
        with self._turn:
            link = self._link
            if self.ended or link is None:
                raise SessionEnded(self._gone())
            self.count += 1
            found = Gathered(secrets.token_hex(16), self.limits, self.count)
            begin = time.monotonic()
            self._interrupted, self._running, self._runner = False, found.token, threading.get_ident()
            try:
                self._exchange(link, source, link.clock() + seconds, found, on_event)
            except SessionEnded:
                raise
            except _CallbackError as error:
                self._drop(_STOPPED)
                raise error.cause from None
            except (OSError, EOFError, ValueError) as error:
                self._drop(str(error) or "its agent does not answer")
                found.ended = self.ended
                if found.outcome is not CellOutcome.TIMED_OUT:
                    found.outcome = CellOutcome.DIED
            except BaseException:  # the caller pressed Ctrl-C: the cell must not go on
                self._drop(_STOPPED)
                raise
            finally:
                self._running, self._runner = "", 0
            found.usage = CellUsage(time.monotonic() - begin, found.usage.cpu_seconds, found.usage.memory)
            return found

    def _exchange(self, link: Channel, source: str, deadline: float, found: Gathered, on_event: OnEvent | None) -> None:
        limits = dict.fromkeys(("stdout", "stderr"), self.limits.output) | {
            "displays": self.limits.displays,
            "display_bytes": self.limits.display_bytes,
        }
        try:
            link.send(b"R", {"token": found.token, "source": source, "limits": limits})
        except (OSError, EOFError) as error:  # it has ended since the last cell, so this one has not begun
            self._drop(str(error) or "its agent takes no cell")
            raise SessionEnded(self._gone()) from error
        steps = iter(((b"I", _INTERRUPT_SECONDS), (b"K", _KILL_SECONDS)))
        while True:
            try:
                kind, payload = link.receive(deadline)
            except TimeoutError:
                found.outcome = CellOutcome.TIMED_OUT
                step, seconds = next(steps, (b"", 0.0))
                if not step:
                    raise
                link.send(step)
                deadline = link.clock() + seconds
                continue
            if kind == b"c" and self._functions:
                self._call(link, payload, found)
            elif self._take(link, kind, payload, found, on_event):
                return

    def _take(self, link: Channel, kind: bytes, payload: bytes, found: Gathered, on_event: OnEvent | None) -> bool:
        """Take one frame of the running cell; return whether it is the last."""
        event: CellOutput | Display | None = None
        if kind in (b"o", b"e"):
            kept = found.stdout if kind == b"o" else found.stderr
            kept += payload
            if len(kept) > self.limits.output:
                raise ValueError("more output than its limit")
            event = CellOutput("stdout" if kind == b"o" else "stderr", payload)
        elif kind == b"d":
            found.display_bytes += len(payload)
            event = display_of(decoded(payload).get("data"))
            found.displays.append(event)
            if len(found.displays) > self.limits.displays or found.display_bytes > self.limits.display_bytes + _SLACK:
                raise ValueError("more displays than its limit")
        elif kind == b"v":
            found.value = decoded(payload)
        elif kind == b"x":
            found.error = decoded(payload)
        elif kind == b".":
            self._finish(decoded(payload), found)
            return True
        elif kind == b"!":
            report = decoded(payload)
            found.omitted = omitted_of(report)
            self.ended = reason(report)
            if int(number_of(report, "status")) == signal.SIGKILL and found.outcome is CellOutcome.COMPLETED:
                self._look_for_limit(link)
            found.ended = self.ended
            if found.outcome is CellOutcome.COMPLETED:
                found.outcome = CellOutcome.DIED
            return True
        else:
            raise ValueError("a message of an unknown kind")
        if event is not None and on_event is not None:
            _report(event, on_event)
        return False

    def _call(self, link: Channel, payload: bytes, found: Gathered) -> None:
        """Call a function of the caller for the cell."""
        answer = self._functions.answer(payload, found.calls)
        found.calls += 1
        link.send(b"A", answer)

    def _look_for_limit(self, link: Channel) -> None:
        """Wait a moment for the sandbox to end the agent as well, as it does if a limit was the reason."""
        try:
            link.receive(link.clock() + _LIMIT_SECONDS)
        except EOFError as error:
            self._drop(str(error))
        except (TimeoutError, ValueError):
            return

    def _finish(self, report: dict[str, Any], found: Gathered) -> None:
        if report.get("token") != found.token:
            raise ValueError("an end that is not this cell's")
        found.omitted = omitted_of(report)
        found.usage = CellUsage(0.0, number_of(report, "cpu_seconds"), int(number_of(report, "memory")) or None)
        if self._interrupted and found.outcome is CellOutcome.COMPLETED and was_interrupted(found):
            found.outcome = CellOutcome.INTERRUPTED

    def _gone(self) -> str:
        return f"the {self.what} is gone: {self.ended or 'closed'}; call restart() for a fresh one"

    def _drop(self, why: str) -> None:
        self.ended = why
        link, self._link = self._link, None
        if link is not None:
            link.close()


def _report(event: CellOutput | Display, on_event: OnEvent) -> None:
    try:
        on_event(event)
    except Exception as error:
        raise _CallbackError(error) from error
