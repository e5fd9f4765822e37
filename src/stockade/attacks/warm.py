"""Attacks in a warm interpreter, for the languages that have one. ``native`` then has another name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.attacks.internet.trials import STAGE
from stockade.backends import registry

if TYPE_CHECKING:
    from stockade.attacks.corpus import Attack
    from stockade.backends.base import Backend

NAME = "native (warm)"
"""The name of the backend ``native`` if each run must be warm."""
_COLD = "native"
_KEPT = ("python", "ruby")


def meant(backend: str | Backend) -> tuple[Backend, bool]:
    """Return the backend of this name, and whether its runs must be warm. See ``registry.find``."""
    return (registry.find(_COLD), True) if backend == NAME else (registry.find(backend), False)


def why_not(attack: Attack) -> str:
    """Return why no warm interpreter can run ``attack``, or an empty text."""
    if STAGE in attack.stage:
        return "a run with a way out needs a fresh interpreter"
    return "" if attack.language in _KEPT else f"no interpreter is kept warm for {attack.language}"
