"""The interface between a run and the means by which its guest runs: an execution, and the callbacks that it makes.

An execution starts one guest, controls it and measures it. Everything else lies above and is the same for every
execution: deadlines, the output bound, events, the report. No method waits: news comes by callbacks from the loop.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from stockade.linux.cgroups import Group
    from stockade.linux.tree import Sample
    from stockade.warden.proxy.handle import ProxyHandle
    from stockade.warden.run.meter import Meter
else:
    Protocol = object

PAUSE, RESUME, SIGNAL, RESIZE, HANG_UP, TOUCH, KILL, KILL_AT_ONCE, END_GUEST = (
    "pause",
    "resume",
    "signal",
    "resize",
    "hang_up",
    "touch",
    "kill",
    "kill_at_once",
    "end_guest",
)
"""The requests of ``Execution.control``. ``KILL`` ends every process of the guest, ``KILL_AT_ONCE`` without regard to
clean-up. ``END_GUEST`` ends only its first process; the rest follows. A terminal takes ``RESIZE`` and ``HANG_UP``.
``TOUCH`` says that the caller uses a living instance, whose idle time then begins again."""


class Callbacks(Protocol):
    """The run, as its execution sees it. All calls come from the loop."""

    meter: Meter
    """The run's clock and counters."""

    def on_handing_over(self) -> None:
        """Learn that the guest gets the launch now, so its program may begin at any moment."""

    def on_listener(self, listener: int) -> None:
        """Take the descriptor that reports system calls refused by the guest's filter."""

    def on_started(self, fields: dict[str, Any]) -> None:
        """Learn that the program has begun: ``at``, ``cpu_seconds`` and ``peak_memory`` of the set-up, ``notes``."""

    def on_exit(self, fields: dict[str, Any]) -> None:
        """Learn that no process of the guest is left: ``status``, ``at``, and measurements of the end."""

    def on_failed(self, kind: str, message: str) -> None:
        """Learn why the sandbox (``"setup"``, ``"init"``) or the command (``"exec"``) did not start."""

    def on_trouble(self, message: str) -> None:
        """Learn that the sandbox does not work any more: the run must be ended."""

    def on_death(self) -> None:
        """Learn that the guest's processes are dead, whether or not their end was reported."""

    def conclude_if_ended(self) -> bool:
        """Conclude the run if the guest has ended; return whether it has."""

    def mark_due(self) -> None:
        """Check the run at the next turn of the loop."""


class Streams(Protocol):
    """The warden's ends of the guest's streams."""

    stdout: int
    stderr: int
    channel: int


class Execution(Protocol):
    """Starts one guest, controls it and measures it."""

    lasting: bool
    """Whether the guest's supervisor outlives it: a warm worker."""
    head: int
    """The pid above all processes of the guest."""
    name: str
    """The process or object on which the guest depends, for messages."""
    may_start_again: bool
    """Whether a dead ``head`` proves that all processes of the guest are dead, so another sandbox may be tried."""
    own_tasks: int
    """Tasks in ``group`` that are not the guest's."""
    proxy: ProxyHandle | None
    """The way out of the sandbox, if the launch has one."""

    @property
    def group(self) -> Group | None:
        """The control groups that count for this guest alone."""

    @property
    def uid(self) -> int | None:
        """The host uid of the guest where root starts the run."""

    @property
    def streams(self) -> Streams:
        """The streams of the guest."""

    @property
    def collect_fds(self) -> list[int]:
        """Descriptors of the folder to collect, and of the list of files copied into it."""

    @property
    def setup_state(self) -> str:
        """The step that a slow set-up waits for, as a clause for messages."""

    def start(self, callbacks: Callbacks) -> None:
        """Start the guest, and report to ``callbacks`` from now on."""

    def take_stdin(self) -> int:
        """Return the descriptor that feeds the guest's standard input; the caller owns it from now on."""

    def control(self, request: str, number: int = 0) -> bool:
        """Carry out a request; ``number`` is the signal, or rows x 65536 + columns.

        Return ``False`` if the request must be repeated after a moment.
        """

    def poll(self) -> bool:
        """Take reports that no event announces. Return whether more may come."""

    def sample(self, bound: int | None) -> Sample:
        """Return what the guest uses, where no control group counts it. Memory below ``bound`` may be inexact."""

    def check(self, now: float, *, starting: bool) -> float:
        """Report a helper that does not work any more. Return when to call again."""

    def standing_still(self) -> str:
        """Return the name of a helper that a stop signal holds, or an empty text."""

    def tasks(self) -> int | None:
        """Return the number of the guest's tasks, or ``None`` if nothing counts them exactly."""

    def holds_one(self) -> bool:
        """Return whether the guest has no process but its first one, dead or alive; ``False`` if unknown."""

    def measure(self) -> dict[str, Any]:
        """Return the measurements of the end that the warden itself makes."""

    def dismiss(self) -> None:
        """After the answer, take no more reports and start to end what is left of the guest; ``on_death`` follows."""

    def release(self) -> None:
        """Give back everything: the guest is dead. This may wait for the kernel."""
