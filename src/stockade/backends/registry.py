"""The backends there are, as data; imported when asked for."""

from __future__ import annotations

from functools import lru_cache

from stockade.backends.base import Backend
from stockade.core.errors import BackendUnavailable
from stockade.core.loading import load, loading

BUILT_IN = {
    "native": "stockade.backends.native.backend:Native",
    "bubblewrap": "stockade.backends.bubblewrap.backend:Bubblewrap",
    "landlock": "stockade.backends.process.backend:Landlock",
    "process": "stockade.backends.process.backend:Process",
    "firejail": "stockade.backends.firejail.backend:Firejail",
}
"""Name to module and class; the cheapest to start first among equals."""
_GROUP = "stockade.backends"


def find(backend: str | Backend) -> Backend:
    """Return the backend of that name, or the object itself."""
    if not isinstance(backend, str):
        if not hasattr(backend, "prepare"):
            raise BackendUnavailable(f"a backend is a name or an object that prepares launches, not {backend!r:.80}")
        return backend
    place = BUILT_IN.get(backend) or _others().get(backend)
    if place is None:
        there = ", ".join(sorted({*BUILT_IN, *_others()}))
        raise BackendUnavailable(f"there is no backend {backend!r}; there are: {there}")
    found: Backend = load(place)()
    return found


def others() -> list[str]:
    """Return the names of backends that other packages bring."""
    return sorted(_others())


@lru_cache(maxsize=1)
def _others() -> dict[str, str]:
    """Entry points of the group ``stockade.backends``; a built-in name cannot be taken."""
    with loading:
        from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=_GROUP) if point.name not in BUILT_IN}
