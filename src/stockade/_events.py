"""What happens in a run, as it happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stockade._guarantees import Guarantee


@dataclass(frozen=True)
class Started:
    """The program was executed; the clock runs."""


@dataclass(frozen=True)
class Output:
    """A piece of standard output (``stream`` 1) or standard error (2), beginning at byte ``at`` of it."""

    stream: Literal[1, 2]
    at: int
    data: bytes


@dataclass(frozen=True)
class LimitReached:
    """A limit is ``near`` (four fifths used) or ``met``; memory is past its ``soft`` limit, for the first time."""

    guarantee: Guarantee
    state: Literal["near", "met", "soft"]


@dataclass(frozen=True)
class Exited:
    """The last process is gone; ``report`` holds the supervisor's readings."""

    report: Mapping[str, Any]


@dataclass(frozen=True)
class Refused:
    """The sandbox could not be set up, or its supervisor is gone."""

    message: str


Event = Started | Output | LimitReached | Exited | Refused
