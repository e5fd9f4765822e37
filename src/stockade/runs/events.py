"""What happens in a run, as it happens.

The order: ``Started`` first, if the program was executed at all; ``Output`` of each stream in the order of ``at``;
``Finished`` last, exactly once. Between the two streams, and between output and the rest, the order is that in which
the warden saw them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stockade.policy.guarantees import Guarantee
from stockade.runs.result import Result


@dataclass(frozen=True)
class Started:
    """The program was executed; the clock runs."""


@dataclass(frozen=True)
class Output:
    """A piece of standard output (``stream`` 1) or standard error (2), beginning at byte ``at`` of it.

    A piece that begins past the end of the one before tells how much was left out in between.
    """

    stream: Literal[1, 2]
    at: int
    data: bytes


@dataclass(frozen=True)
class UsageReport:
    """What the run has used up to now. Seconds and bytes; ``None`` where nothing counts it."""

    cpu_seconds: float
    wall_seconds: float
    """Without the time for which it was paused."""
    memory: int | None
    """What the whole tree holds now, pages of files left out."""
    processes: int | None
    """Tasks (processes and threads) now."""
    output: int
    """Bytes written to both streams, kept or not."""


@dataclass(frozen=True)
class LimitReached:
    """A limit is ``near`` (four fifths used) or ``met``, each told once. ``used`` and ``figure`` are in the limit's own
    unit: seconds, bytes, tasks.

    ``soft`` is told of memory past its soft limit, which is then the ``figure``; it ends nothing.
    """

    guarantee: Guarantee
    state: Literal["near", "soft", "met"]
    used: float
    figure: float

    @property
    def is_warning(self) -> bool:
        """Whether the limit itself is not met yet."""
        return self.state != "met"


@dataclass(frozen=True)
class Finished:
    """The run is over and nothing of it is left."""

    result: Result


Event = Started | Output | UsageReport | LimitReached | Finished
OnWarning = Callable[[LimitReached], object]
"""Is called with each ``LimitReached`` that is a warning."""
