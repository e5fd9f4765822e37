"""What a backend is: a short name and four questions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from stockade._facts import HostFacts
from stockade._guarantees import Enforcement, Guarantee, Isolation
from stockade._job import Command, Job
from stockade._launch import Launch
from stockade._plan import Plan


@dataclass(frozen=True)
class Availability:
    """Whether a backend can be used on a host; if not, why, and what to do about it."""

    usable: bool
    reason: str = ""
    remedy: str = ""


class Backend(Protocol):
    """One kind of wall around a guest."""

    @property
    def name(self) -> str:
        """A short noun."""

    @property
    def isolation(self) -> Isolation:
        """What stands between guest and host."""

    def availability(self, facts: HostFacts) -> Availability:
        """Return whether this backend can be used here."""

    def capabilities(self, facts: HostFacts) -> Mapping[Guarantee, Enforcement]:
        """Return the best this backend can do here for each guarantee."""

    def prepare(self, plan: Plan, job: Job, command: Command) -> AbstractContextManager[Launch]:
        """Return the launch of ``command``; leaving the context gives back what was taken for it."""
