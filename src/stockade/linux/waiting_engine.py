"""An engine whose sandbox waits for a job: it can be started before there is one.

The first process of its sandbox opens a named pipe, and reads from it what to run. The process that would become the
guest holds the other end. It stays as the engine's parent, and ends as the engine does.
"""

from __future__ import annotations

import errno
import os
import select
import time

from stockade.linux import limits as rlimits

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
    from typing import NoReturn
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_PAUSE_SECONDS = 0.001
_START_SECONDS = 8.0
"""Less than the set-up of a sandbox may take (``Watch.setup_seconds``), so that the error names the engine."""
_FAILED = 127
_OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT)
"""They go to the whole process group, and the guest decides what they do."""


class WaitingEngine:
    """The engine below this process: ``start`` it, maybe ``watch`` for its end, then ``finish`` with the job."""

    job = b""
    """What the first process of the sandbox reads."""

    def __init__(
        self, pipe: str, argv: tuple[str, ...], environment: Mapping[str, str], limits: list[tuple[int, int, int]]
    ) -> None:
        """``pipe`` is the path of the named pipe to make. ``limits`` are set for the engine alone."""
        self._pipe, self._argv, self._environment, self._limits = pipe, argv, environment, limits
        self._pid, self._job_end = 0, -1

    def start(self) -> None:
        """Start the engine, unless it was started, and wait until the sandbox waits for its job, or the engine ends.

        An engine that has ended says why in its log. Raises ``OSError``.
        """
        if self._pid:
            return
        os.mkfifo(self._pipe, 0o600)
        self._pid = os.fork()
        if self._pid == 0:
            self._become_engine()
        for number in _OF_TERMINALS:
            signal.signal(number, signal.SIG_IGN)
        deadline = time.monotonic() + _START_SECONDS
        while self._job_end < 0 and not self._has_ended():
            try:
                self._job_end = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                if time.monotonic() > deadline:
                    why = f"the engine has made no sandbox in {_START_SECONDS:.0f} s"
                    raise OSError(errno.ETIMEDOUT, why) from None
                time.sleep(_PAUSE_SECONDS)  # nobody has opened the other end
        os.unlink(self._pipe)  # so that a guest finds no way to open it again

    def _become_engine(self) -> NoReturn:
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            rlimits.apply(self._limits)
            os.execve(self._argv[0], self._argv, self._environment)
        finally:
            os._exit(_FAILED)

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def watch(self, control: int) -> None:
        """Wait until ``control`` can be read. If the waiting sandbox ends before, end this process as well."""
        if self._job_end < 0:
            return
        pidfd = os.pidfd_open(self._pid)
        poller = select.poll()
        for fd in (control, pidfd):
            poller.register(fd, select.POLLIN)
        if {fd for fd, _ in poller.poll()} == {pidfd}:
            os._exit(_FAILED)
        os.close(pidfd)

    def finish(self) -> NoReturn:
        """Hand the job over, and end as the engine ends. Never return."""
        for number in range(4):
            try:
                os.close(number)  # else the guest's streams would have no end
            except OSError:
                pass  # few guests have a result channel
        if self._job_end >= 0:
            self._hand_over()
        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status):
            _die_by(os.WTERMSIG(status))
        os._exit(os.WEXITSTATUS(status))

    def _hand_over(self) -> None:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.set_blocking(self._job_end, True)
        left = memoryview(self.job)
        try:
            while left:
                left = left[os.write(self._job_end, left) :]
        except BrokenPipeError:  # the sandbox was killed as a run took it, and its status must not look like a guest's
            _die_by(signal.SIGKILL)
        os.close(self._job_end)


def _die_by(number: int) -> NoReturn:
    try:
        signal.signal(number, signal.SIG_DFL)
    except (OSError, ValueError):
        pass  # SIGKILL
    os.kill(os.getpid(), number)
    os._exit(128 + number)
