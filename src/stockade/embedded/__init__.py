"""Scripts inside your application: a metered Python with six caps that no script can catch.

Example:
    >>> from stockade.embedded import Caps, Runtime
    >>> Runtime(Caps(fuel=10_000)).run("sum(range(10))")
    45
"""

from typing import TYPE_CHECKING

from stockade.core.loading import loading
from stockade.embedded.boundary.prices import LIST as PRICE_LIST
from stockade.embedded.boundary.prices import VERSION as PRICE_VERSION
from stockade.embedded.caps import Caps
from stockade.embedded.errors import (
    CapExceeded,
    CrossingError,
    HostError,
    ResourceExhausted,
    RuntimeBusy,
    RuntimeDead,
    ScriptError,
    WorkerCrashed,
)
from stockade.embedded.runtime import AsyncRuntime, Runtime, Usage

__all__ = [
    "PRICE_LIST", "PRICE_VERSION", "AsyncRuntime", "CapExceeded", "Caps", "CrossingError", "HostError",
    "ResourceExhausted", "Runtime", "RuntimeBusy", "RuntimeDead", "ScriptError", "Usage", "WorkerCrashed", "WorkerPool",
]  # fmt: skip

if TYPE_CHECKING:
    from stockade.embedded.worker.pool import WorkerPool


def __getattr__(name: str) -> object:
    """Import ``WorkerPool`` at its first use: it loads all of the sandbox."""
    if name != "WorkerPool":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with loading:
        from stockade.embedded.worker.pool import WorkerPool
    return WorkerPool
