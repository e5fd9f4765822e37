"""Attacks from a warm interpreter: those that are Python source, on ``native``, which has another name then."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stockade.backends import registry

if TYPE_CHECKING:
    from stockade._job import Job
    from stockade.attacks.corpus import Attack
    from stockade.backends.base import Backend

NAME = "native (warm)"
"""What the backend is called where each run must be a copy of an interpreter that is kept warm."""
_COLD = "native"
_LAID = "import sys as _s; _m = _s.modules['kit'] = type(_s)('kit'); exec({kit!r}, vars(_m)); del _m, _s\n"
"""In front of a program: no file can be laid beside one that a copy runs."""


def meant(backend: str | Backend) -> tuple[Backend, bool]:
    """Return the backend that is called ``backend``, and whether its runs must be warm; see ``registry.find``."""
    return (registry.find(_COLD), True) if backend == NAME else (registry.find(backend), False)


def why_not(attack: Attack) -> str:
    """Return why no warm interpreter can run ``attack``; an empty text where one may."""
    return "" if attack.language == "python" else f"only Python is kept warm, and this is {attack.language}"


def job(cold: Job, attack: Attack) -> Job:
    """Return the same job for a copy of a warm interpreter."""
    assert cold.source is not None and attack.kit is not None
    files = {name: content for name, content in cold.files.items() if name != attack.kit.name}
    laid = _LAID.format(kit=attack.kit.read_text(encoding="utf-8"))
    return replace(cold, source=laid.encode() + cold.source, files=files, warm=True)
