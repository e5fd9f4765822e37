"""Settings of one runtime by its host: the clock, the seed, the sink of output, and the error of host functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


FROZEN_CLOCK = 946_684_800.0  # 2000-01-01T00:00:00Z


@dataclass(frozen=True)
class Settings:
    """The settings of one runtime. ``clock`` is seconds since the epoch, and the time never passes in a script."""

    write: Callable[[str], None]
    host_error: Any
    clock: float
    seed: int
