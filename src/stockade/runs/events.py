"""The events of a run, reported while it happens.

``Started`` comes first, if the program was executed at all. ``Output`` of each stream comes in the order of ``at``, and
``Finished`` comes last, exactly once. All other order is that in which the warden saw the events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from stockade.core.dataclass import dataclass
from stockade.policy.guarantees import Guarantee
from stockade.runs.result import Result


@dataclass(frozen=True)
class Started:
    """The program was executed, and the clock runs."""


@dataclass(frozen=True)
class Output:
    """A piece of standard output (``stream`` 1) or standard error (2), which begins at byte ``at`` of the stream.

    If ``at`` lies past the end of the piece before, the bytes in between were left out.
    """

    stream: Literal[1, 2]
    at: int
    data: bytes


@dataclass(frozen=True)
class UsageReport:
    """Resources that the run has used so far, in seconds and bytes; ``None`` where nothing counts it."""

    cpu_seconds: float
    wall_seconds: float
    """Wall time without pauses."""
    memory: int | None
    """Memory of the whole process tree now, without pages of files."""
    processes: int | None
    """Tasks (processes and threads) now."""
    output: int
    """Bytes written to both streams, kept or not."""


@dataclass(frozen=True)
class LimitReached:
    """A limit is ``near`` (four fifths used) or ``met``; each is reported once.

    ``used`` and ``figure`` are in the limit's own unit: seconds, bytes or tasks. The state ``soft`` means that memory
    passed its soft limit, which is then the ``figure``; the run continues.
    """

    guarantee: Guarantee
    state: Literal["near", "soft", "met"]
    used: float
    figure: float

    @property
    def is_warning(self) -> bool:
        """Whether the event only warns: the limit itself is not met yet."""
        return self.state != "met"


@dataclass(frozen=True)
class Finished:
    """The run is over, and nothing of it is left."""

    result: Result


Event = Started | Output | UsageReport | LimitReached | Finished
OnWarning = Callable[[LimitReached], object]
"""A callback that receives each ``LimitReached`` that is a warning."""
