"""The fastest run on each backend, kept in the user's cache folder for ``stockade plan`` to show.

No decision depends on it. It is written at the end of a process, at most once a day for each backend. A cache that
cannot be read or written counts as empty.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from stockade.core.errors import JobError
from stockade.core.strict_json import dumps
from stockade.workspace.host_files import HostFile

_MOST = 1 << 20
_DAY = 24 * 3600.0
_seen: dict[str, float] = {}


def note(backend: str, seconds: float) -> None:
    """Note how long one whole run took."""
    if not _seen:
        atexit.register(_save)
    _seen[backend] = min(seconds, _seen.get(backend, seconds))


@lru_cache(maxsize=1)
def known() -> dict[str, float]:
    """Return the fastest known run of each backend, in seconds."""
    path = _file()
    try:
        if path is None or not path.exists():
            return {}
        with HostFile(path, "the cache", follow=False) as file:
            data = json.loads(file.read(_MOST))
        return {name: float(value) for name, value in data.items() if isinstance(value, int | float)}
    except (OSError, ValueError, AttributeError, JobError):
        return {}


def _save() -> None:
    path = _file()
    earlier = known()
    if path is None:
        return
    with suppress(OSError):
        if time.time() - path.stat().st_mtime < _DAY and set(_seen) <= set(earlier):
            return
    fastest = {name: round(min(seconds, earlier.get(name, seconds)), 6) for name, seconds in _seen.items()}
    with suppress(OSError, JobError), HostFile(path, "the cache", follow=False, makes=True) as file:
        file.write(dumps(earlier | fastest).encode())


def _file() -> Path | None:
    """Return the cache's file; ``None`` without a home folder, because any other place would be a guess.

    No link is followed below the home folder: a guest that could write there may have left one.
    """
    cache, home = os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME")
    if not (cache or home):
        return None
    base = Path(os.path.realpath(cache)) if cache else Path(os.path.realpath(home or "")) / ".cache"
    return base / "stockade" / "start-costs.json"
