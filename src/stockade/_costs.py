"""How fast a run was on each backend at best, remembered in the user's cache folder for ``stockade plan`` to show.

Nothing is decided by it. Written once at the end of a process, at most once a day for each backend; a cache that
cannot be read or written is as good as none.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_DAY = 24 * 3600.0
_seen: dict[str, float] = {}


def note(backend: str, seconds: float) -> None:
    """Remember how long one whole run took."""
    if not _seen:
        atexit.register(_save)
    _seen[backend] = min(seconds, _seen.get(backend, seconds))


@lru_cache(maxsize=1)
def known() -> dict[str, float]:
    """Return the fastest run of each backend that was measured, in seconds."""
    try:
        data = json.loads(_file().read_text(encoding="utf-8"))
        return {name: float(value) for name, value in data.items() if isinstance(value, int | float)}
    except (OSError, ValueError, AttributeError):
        return {}


def _save() -> None:
    path = _file()
    with suppress(OSError):
        fresh = time.time() - path.stat().st_mtime < _DAY
        if fresh and set(_seen) <= set(known()):
            return
    earlier = known()
    fastest = {name: round(min(seconds, earlier.get(name, seconds)), 6) for name, seconds in _seen.items()}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(earlier | fastest), encoding="utf-8")
        draft.replace(path)


def _file() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME", "/nonexistent"), ".cache")  # noqa: PTH118
    return Path(home) / "stockade" / "start-costs.json"
