"""The stage of the small internet, in which the trial itself must run: what its servers note, and a secret for them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stockade.attacks.internet import PRIVATE, trials
from stockade.attacks.world import StageError, World

_NOTES = Path("notes")
_LATE_SECONDS, _QUIET_SECONDS = 2.0, 0.1
_MANY, _WHOLE = 50, 600_000
SECRET = "API_KEY"
_HOSTS = ("api.example.org", "api.example.com")


def internet(world: World) -> Iterator[None]:
    """Watch what the servers note."""
    if not trials.inside:
        raise StageError("this attack runs in the small internet only")
    since = _NOTES.stat().st_size

    def seen(check: Callable[[dict[str, Any]], bool]) -> Callable[[], bool]:
        return lambda: _found(since, check, patient=world.beside is None)

    world.seen |= {
        "stolen": seen(lambda note: "asked" not in note and world.marker in json.dumps(note)),
        "asked": seen(lambda note: world.marker in note.get("asked", "")),
        "private": seen(lambda note: note.get("at", [""])[0].endswith(PRIVATE) and "path" in note),
        "told": seen(lambda note: world.secret in json.dumps(note)),
        "turned": seen(lambda note: note.get("path") == f"/{world.marker[::-1]}"),
        "whole": seen(lambda note: note.get("path") == f"/{world.marker[::-1]}" and note["body"] == _WHOLE),
        "seven": seen(lambda note: world.marker[-7:] in str(note.get("sni"))),
        "many": lambda: _count(since) > _MANY,
    }
    yield


def secret(world: World) -> Iterator[None]:
    """Give the control run a secret as a variable, and the confined run a placeholder of it."""
    if world.beside is None:
        world.environment[SECRET] = world.secret
    else:
        world.secrets[SECRET] = _HOSTS
    yield


def _found(since: int, check: Callable[[dict[str, Any]], bool], *, patient: bool) -> bool:
    """Return whether a note meets ``check``. Only the control run waits for one."""
    until = time.monotonic() + (_LATE_SECONDS if patient else _QUIET_SECONDS)
    while not any(map(check, _notes(since))):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _count(since: int) -> int:
    return sum("path" in note for note in _notes(since))


def _notes(since: int) -> list[dict[str, Any]]:
    with _NOTES.open(encoding="utf-8") as file:
        file.seek(since)
        return [json.loads(line) for line in file if line.endswith("\n")]
