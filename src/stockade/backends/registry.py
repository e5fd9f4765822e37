"""The backends there are, as data; imported when asked for."""

from __future__ import annotations

from importlib import import_module

from stockade._errors import BackendUnavailable
from stockade.backends.base import Backend

BUILT_IN = {
    "native": "stockade.backends.native:Native",
    "bubblewrap": "stockade.backends.bubblewrap:Bubblewrap",
    "landlock": "stockade.backends.process:Landlock",
    "process": "stockade.backends.process:Process",
}
"""Name to module and class."""


def find(backend: str | Backend) -> Backend:
    """Return the backend of that name, or the object itself."""
    if not isinstance(backend, str):
        return backend
    if backend not in BUILT_IN:
        raise BackendUnavailable(f"there is no backend {backend!r}; there are: {', '.join(sorted(BUILT_IN))}")
    module, _, name = BUILT_IN[backend].partition(":")
    found: Backend = getattr(import_module(module), name)()
    return found
