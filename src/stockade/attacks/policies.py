"""The policy under which an attack runs, and the interpreter that runs it."""

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
"""The default limit on wall time: longer than any control run takes."""
_SYSTEM_PYTHON = "/usr/bin/python3"
_NATIVE = "native"


def attacked(
    own: Mapping[str, Any],
    base: Mapping[str, Any] | None = None,
    read: Sequence[str] = (),
    write: Sequence[str] = (),
    files: Mapping[str, Any] | None = None,
) -> Policy:
    """Return the policy ``base``, overridden by an attack's ``own`` fields, with the paths ``read`` and ``write``.

    ``files`` overrides other fields of ``filesystem``. The policy accepts any strength for every guarantee, because the
    trial compares the attack's result with what the receipt claims.
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
    """Return ``base`` with the values of ``over``, table by table."""
    made = {key: dict(value) if isinstance(value, Mapping) else value for key, value in base.items()}
    for key, value in over.items():
        made[key] = {**made.get(key, {}), **value} if isinstance(value, Mapping) else value
    return made


@lru_cache
def _is_there(path: str) -> bool:
    return os.access(path, os.X_OK)


def interpreter(backend: Backend) -> str | None:
    """Return the Python for attacks on ``backend``, or ``None`` for this one, which other uids may not reach."""
    return _SYSTEM_PYTHON if backend.name != _NATIVE and _is_there(_SYSTEM_PYTHON) else None


def executing(backend: Backend) -> list[str]:
    """Return the command that makes the file ``attack`` executable and executes it."""
    python = interpreter(backend)
    if python is None:
        return ["/bin/sh", "-c", "chmod 700 attack && exec ./attack"]
    return [python, "-c", _EXECUTE]  # this way works without chmod: the file is created with the right mode


_EXECUTE = (
    "import os\nfd = os.open('program', os.O_WRONLY | os.O_CREAT, 0o700)\n"
    "os.write(fd, open('attack', 'rb').read())\nos.close(fd)\nos.execv('./program', ['./program'])"
)
