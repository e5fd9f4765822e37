"""Attacks from a warm interpreter, in the languages that have one: on ``native``, which has another name then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.backends import registry

if TYPE_CHECKING:
    from stockade.attacks.corpus import Attack
    from stockade.backends.base import Backend

NAME = "native (warm)"
"""What the backend is called where each run must be a copy of an interpreter that is kept warm."""
_COLD = "native"
_KEPT = ("python", "ruby")


def meant(backend: str | Backend) -> tuple[Backend, bool]:
    """Return the backend that is called ``backend``, and whether its runs must be warm; see ``registry.find``."""
    return (registry.find(_COLD), True) if backend == NAME else (registry.find(backend), False)


def why_not(attack: Attack) -> str:
    """Return why no warm interpreter can run ``attack``; an empty text where one may."""
    return "" if attack.language in _KEPT else f"no interpreter is kept warm for {attack.language}"
