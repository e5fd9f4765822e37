"""The profiles as rows of a table, and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stockade.core.units import UNLIMITED
from stockade.planning.figures import asked
from stockade.policy import merge
from stockade.policy.guarantees import Guarantee
from stockade.policy.model import Policy
from stockade.policy.profiles import PROFILES

HEADER = (
    "profile", "memory", "cpu", "wall", "processes", "open files", "operations", "network", "writable", "isolation",
    "on output",
)  # fmt: skip


_BESIDE = {
    "memory": ("limits.memory", "limits.swap"),
    "cpu": ("limits.cpu_time", "limits.cpu_rate"),
    "writable": ("limits.disk", "filesystem.workspace", "filesystem.access", "filesystem.protected"),
    "isolation": ("isolation",),
}
"""Maps each column to the fields whose notes it refers to."""


def rows() -> Iterator[tuple[str, ...]]:
    """Yield a row of figures for each profile. The limits without a column are those of the default profile."""
    numbers = {note: number for number, note in enumerate(notes(), 1)}
    for name, profile in PROFILES.items():
        beside = {
            column: [numbers[field, profile.notes[field]] for field in fields if field in profile.notes]
            for column, fields in _BESIDE.items()
        }
        cells = zip(HEADER, _figures(name), strict=True)
        yield tuple(f"{cell} {beside[column]}" if beside.get(column) else cell for column, cell in cells)


def notes() -> list[tuple[str, str]]:
    """Return the notes on all profiles, each once, as field and sentence."""
    return list(dict.fromkeys(note for profile in PROFILES.values() for note in profile.notes.items()))


def _figures(name: str) -> tuple[str, ...]:
    data = merge.merge(merge.profile(name)).data()
    # With an empty workspace, so that the table does not depend on the current folder.
    policy = Policy.parse(data | {"filesystem": data["filesystem"] | {"workspace": "empty"}})
    return (
        name,
        asked(policy, Guarantee.MEMORY),
        _cpu(policy),
        asked(policy, Guarantee.WALL_TIME),
        asked(policy, Guarantee.PROCESSES),
        asked(policy, Guarantee.OPEN_FILES),
        asked(policy, Guarantee.OPERATIONS),
        asked(policy, Guarantee.NETWORK),
        _writable(data["filesystem"]),
        policy.isolation or "process",
        f"{policy.on_output} {asked(policy, Guarantee.OUTPUT)}",
    )


def purposes() -> list[tuple[str, str]]:
    """Return name and purpose of each profile."""
    return [(name, profile.about) for name, profile in PROFILES.items()]


def plain() -> list[dict[str, Any]]:
    """Return the profiles as JSON-compatible data: the fields that each one sets, and its notes."""
    return [
        {"name": name, "about": profile.about, "fields": profile.fields, "notes": dict(profile.notes)}
        for name, profile in PROFILES.items()
    ]


def _cpu(policy: Policy) -> str:
    rated = policy.limits.cpu_rate != UNLIMITED
    return asked(policy, Guarantee.CPU_RATE if rated else Guarantee.CPU_TIME)


def _writable(files: Mapping[str, Any]) -> str:
    if files.get("access") == "read":
        return "nothing"
    if files.get("workspace", "empty") == "empty":
        return "workspace"
    what = "project" if files["access"] == "write" else f"{files['access']} of project"
    return f"{what}, but not {', '.join(files['protected'])}" if files.get("protected") else what
