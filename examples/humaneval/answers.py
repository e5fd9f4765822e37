"""Wrong and hostile answers, with the verdicts that they are expected to get: data, in ``answers/*.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "answers"
_FILES = ("endings", "limits", "reach", "forgeries")


@dataclass(frozen=True)
class Answer:
    """An answer to one problem, and the verdicts that are expected of it."""

    topic: str
    name: str
    problem: int
    why: str
    """What it does, and why the verdict is what it is."""
    code: str
    """What stands after the prompt; it defines the function anew."""
    expected: Mapping[str, tuple[str, ...]]
    """Mode to the verdicts that are right."""
    without_memory_cgroup: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The same where no cgroup bounds memory, if it differs."""
    unconfined: str = ""
    """``anyone`` or ``root``: who gets what it reaches for when nothing confines it."""

    @property
    def right(self) -> bool:
        """Whether its function is right: judged from another process, that is all that counts."""
        return self.expected["apart"] == ("passed",)

    def verdicts(self, mode: str, *, memory_cgroup: bool) -> tuple[str, ...]:
        """Return the verdicts that are right on this kind of host."""
        if not memory_cgroup and mode in self.without_memory_cgroup:
            return self.without_memory_cgroup[mode]
        return self.expected[mode]

    def source(self, prompt: str, bait: Mapping[str, str]) -> str:
        """Return the whole source: the prompt and the answer, with the bait of this host filled in."""
        code = self.code
        for name, value in bait.items():
            code = code.replace("{{" + name + "}}", value)
        return f"{prompt}\n\n{code}"


def load() -> tuple[Answer, ...]:
    """Return all answers."""
    return tuple(answer for topic in _FILES for answer in _topic(topic))


def _topic(topic: str) -> list[Answer]:
    records = tomllib.loads((_FOLDER / f"{topic}.toml").read_text(encoding="utf-8"))["answer"]
    return [_answer(topic, record) for record in records]


def _answer(topic: str, record: dict[str, Any]) -> Answer:
    expected = {mode: record.pop(mode) for mode in ("shared", "apart")}
    elsewhere = record.pop("without_memory_cgroup", {})
    return Answer(topic=topic, expected=_tuples(expected), without_memory_cgroup=_tuples(elsewhere), **record)


def _tuples(table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {mode: (item,) if isinstance(item, str) else tuple(item) for mode, item in table.items()}
