"""The policy that an attack meets, and the interpreter that runs it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stockade.policy.guarantees import Guarantee, Strength

if TYPE_CHECKING:
    from stockade.backends.base import Backend
    from stockade.policy.model import Policy

WALL_SECONDS = 20.0
"""For attacks that say nothing else: longer than any control takes."""
_SYSTEM_PYTHON = "/usr/bin/python3"
_NATIVE = "native"


def attacked(
    own: Mapping[str, Any],
    base: Mapping[str, Any] | None = None,
    read: Sequence[str] = (),
    write: Sequence[str] = (),
    files: Mapping[str, Any] | None = None,
) -> Policy:
    """Return an attack's ``own`` policy laid over ``base``, with the paths ``read`` and ``write``, and what ``files``
    says, in its view.

    It accepts whatever there is, on every guarantee: the receipt says how much that is, and is held to it.
    """
    from stockade.policy.model import Policy

    data = merged({"limits": {"wall_time": WALL_SECONDS}}, merged(base or {}, own))
    shown = data.get("filesystem", {})
    data["filesystem"] = {
        **shown,
        "read": [*shown.get("read", ()), *read],
        "write": [*shown.get("write", ()), *write],
        **(files or {}),
    }
    data["accept"] = dict.fromkeys(map(str, Guarantee), Strength.ABSENT.value)
    return Policy.parse(data)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with what ``over`` says in its place, table by table."""
    made = {key: dict(value) if isinstance(value, Mapping) else value for key, value in base.items()}
    for key, value in over.items():
        made[key] = {**made.get(key, {}), **value} if isinstance(value, Mapping) else value
    return made


@lru_cache
def _is_there(path: str) -> bool:
    return os.access(path, os.X_OK)


def interpreter(backend: Backend) -> str | None:
    """Return the Python to run attacks with, where it must not be our own: another uid may not get to that."""
    return _SYSTEM_PYTHON if backend.name != _NATIVE and _is_there(_SYSTEM_PYTHON) else None


def executing(backend: Backend) -> list[str]:
    """Return the command that makes the file ``attack`` a program and becomes it."""
    python = interpreter(backend)
    if python is None:
        return ["/bin/sh", "-c", "chmod 700 attack && exec ./attack"]
    return [python, "-c", _EXECUTE]  # where no mode can be changed, one is given at birth


_EXECUTE = (
    "import os\nfd = os.open('program', os.O_WRONLY | os.O_CREAT, 0o700)\n"
    "os.write(fd, open('attack', 'rb').read())\nos.close(fd)\nos.execv('./program', ['./program'])"
)
