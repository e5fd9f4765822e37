"""Run control: a caller may signal, pause and resume a running guest, whose execution carries that out."""

from __future__ import annotations

from stockade.warden.run.execution import HANG_UP, PAUSE, RESIZE, RESUME, SIGNAL, TOUCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal

    from stockade.warden.run.execution import Execution
    from stockade.warden.run.meter import Meter
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

ASKS = (SIGNAL, PAUSE, RESUME, RESIZE, HANG_UP, TOUCH)
_AGAIN_SECONDS = 0.005
_WATCH_SECONDS = 0.05


class RunControl:
    """Carries out the requests for one run. Requests that come before the program runs wait for it, in order."""

    def __init__(self, execution: Execution, meter: Meter, asked: list[tuple[str, int]]) -> None:
        self._execution = execution
        self._meter = meter
        self._asked = asked
        self._held: list[int] = []
        self._paused = False
        self._holds = True
        """Whether a pause also holds processes that did not exist when it began."""

    def pull(self, now: float) -> float:
        """Carry out requests, and stop new processes of a paused guest. Return when to call again."""
        while self._asked:
            if not self._do(*self._asked[0], now):
                return now + _AGAIN_SECONDS
            self._asked.pop(0)
        if self._paused and not self._holds:
            self._holds = self._execution.control(PAUSE)
            return now + _WATCH_SECONDS
        return float("inf")

    def release(self) -> None:
        """Drop all requests: the run is being ended."""
        self._asked.clear()

    def _do(self, what: str, number: int, now: float) -> bool:
        """Carry out one request. Return ``False`` if the guest does not exist yet."""
        if what == PAUSE:
            self._pause(now)
        elif what == RESUME:
            self._resume(now)
        elif what in (RESIZE, HANG_UP, TOUCH):
            return self._execution.control(what, number)
        elif not self._paused:
            return self._execution.control(SIGNAL, number)
        elif number == signal.SIGKILL:
            self._execution.control(SIGNAL, number)
            self._resume(now)
        else:
            self._held.append(number)
        return True

    def _pause(self, now: float) -> None:
        if not self._paused:
            self._paused = True
            self._meter.pause(now)
            self._holds = self._execution.control(PAUSE)

    def _resume(self, now: float) -> None:
        if not self._paused:
            return
        self._paused = False
        self._meter.resume(now)
        self._execution.control(RESUME)
        self._asked[1:1] = [(SIGNAL, number) for number in self._held]  # behind the current request
        self._held.clear()
