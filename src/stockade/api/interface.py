"""The type that runners and clients share: whatever runs code, here or on a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypedDict, TypeVar, Unpack

Returned_co = TypeVar("Returned_co", covariant=True)


class PortableOptions(TypedDict, total=False):
    """Options of a run of a command that mean the same here and on a service. ``stockade.run`` describes each."""

    stdin: str | bytes | None
    files: Mapping[str, str | bytes] | None
    environment: Mapping[str, str] | None
    artifacts: Sequence[str]
    labels: Mapping[str, str] | None


class PortableRunOptions(PortableOptions, total=False):
    """Options of a run of source text that mean the same here and on a service."""

    language: str | None
    arguments: Sequence[str]


class RunsCode(Protocol[Returned_co]):
    """Whatever runs code, here or on a service: what is written for it can change where its runs go.

    ``Runner`` and ``Client`` are ``RunsCode[Result]``; ``AsyncRunner`` and ``AsyncClient`` are
    ``RunsCode[Awaitable[Result]]``. Type checkers alone use it.
    """

    def run(self, source: str | bytes, **options: Unpack[PortableRunOptions]) -> Returned_co:
        """Run source text."""

    def run_command(self, argv: Sequence[str], **options: Unpack[PortableOptions]) -> Returned_co:
        """Run a command."""
