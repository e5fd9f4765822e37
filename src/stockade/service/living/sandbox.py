"""A living sandbox of the service worker: the work of each call in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from stockade.api.asynchronous.sandbox import AsyncSandbox
from stockade.api.asynchronous.sessions import AsyncInterpreter
from stockade.api.sessions.records import CellLimits
from stockade.core.errors import SandboxClosed
from stockade.policy.guarantees import Guarantee
from stockade.service.answers import Shape
from stockade.service.living.cells import dumped
from stockade.service.living.requests import CellRequest, CommandRequest, compact
from stockade.service.requests import content_bytes
from stockade.service.settings import MIB

_CELL_OUTPUT, _CELL_DISPLAYS = MIB, 4 * MIB
"""As JSON, a byte may become six."""
MOST_ENTRIES = 1_000
"""The most entries of a folder that one call lists."""


class Terms(NamedTuple):
    """The terms that the register has of a sandbox, and that a fork inherits. Times are seconds."""

    labels: Mapping[str, str]
    idle: float
    lifetime: float


class Kept:
    """A living sandbox with its interpreters."""

    def __init__(self, sandbox: AsyncSandbox, key: int, terms: Terms) -> None:
        self.sandbox, self.key, self.terms = sandbox, key, terms
        self._interpreters: dict[str, AsyncInterpreter] = {}
        self._turn = asyncio.Lock()
        self.ended = asyncio.Event()
        """Set when ``close`` begins."""

    def plan(self) -> dict[str, Any]:
        """Return what holds each guarantee here."""
        plan = self.sandbox.plan
        held = {guarantee.value: each.as_json() for guarantee, each in plan.enforcement.items()}
        return {"backend": plan.backend, "isolation": plan.isolation.value, "enforcement": held}

    async def command(self, request: CommandRequest, shape: Shape) -> bytes:
        """Run a command and return its result as JSON."""
        result = await self.sandbox.run_command(
            request.argv,
            cwd=request.cwd,
            environment=request.environment,
            stdin=None if request.stdin is None else content_bytes("stdin", request.stdin),
            timeout=request.timeout,
            cpu_time=request.cpu_time,
            output=request.output,
        )
        return compact(result.to_dict() if shape == "full" else result.as_json())

    async def cell(self, language: str, request: CellRequest) -> bytes:
        """Run a cell and return its result as JSON. The first one starts the interpreter."""
        interpreter = await self._interpreter(language)
        return compact(dumped(await interpreter.run(request.source, timeout=request.timeout)))

    async def _interpreter(self, language: str) -> AsyncInterpreter:
        async with self._turn:
            found = self._interpreters.get(language)
            if found is None:
                output = self.sandbox.policy.limits.figure(Guarantee.OUTPUT)
                most = _CELL_OUTPUT if output is None else min(int(output), _CELL_OUTPUT)
                limits = CellLimits(output=most, display_bytes=_CELL_DISPLAYS)
                found = self._interpreters[language] = await self.sandbox.interpreter(language, limits=limits)
            return found

    async def restart(self, language: str) -> None:
        """End an interpreter. The next cell starts a fresh one."""
        async with self._turn:
            found = self._interpreters.pop(language, None)
            if found is not None:
                await found.close()

    async def read(self, path: str, most: int) -> bytes:
        """Return the content of a file of at most ``most`` bytes."""
        content: bytes = await self.sandbox.files.read_bytes(path, max_bytes=most)
        return content

    async def write(self, path: str, content: bytes) -> None:
        """Write a file, and make its folders."""
        await self.sandbox.files.write(path, content)

    async def list(self, path: str) -> list[dict[str, Any]]:
        """Return the entries of a folder."""
        found = await self.sandbox.files.list(path, max_entries=MOST_ENTRIES)
        return [asdict(each) for each in found]

    async def remove(self, path: str, *, recursive: bool) -> None:
        """Remove a file or a folder."""
        await self.sandbox.files.remove(path, recursive=recursive)

    async def check(self) -> None:
        """Raise ``SandboxClosed`` if the sandbox has ended."""
        try:
            await self.sandbox.usage()
        except SandboxClosed:
            await self.sandbox.run_command(["true"])  # it is refused, with the reason for the end
            raise

    async def close(self) -> None:
        """End the sandbox."""
        self.ended.set()
        await self.sandbox.close()
