"""A workspace for pydantic-ai: commands and files in a living sandbox. ``pip install 'stockade[pydantic-ai]'``."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import posixpath
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from stockade.api.asynchronous.sandbox import AsyncSandbox
from stockade.api.sandbox import Sandbox
from stockade.api.sessions.files import FileRefused
from stockade.api.sessions.link import SessionEnded
from stockade.core.errors import JobError, SandboxClosed
from stockade.integrations.living import DEFAULT_POLICY, lowered, remark, status_of
from stockade.policy.guarantees import Guarantee
from stockade.runs.result import Outcome, Result

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.workspaces import (
        AuthorityWorkspace,
        CommandResult,
        FileEntry,
        Workspace,
        WorkspaceBackend,
        WorkspaceCommand,
        WorkspaceError,
        WorkspaceOutputLimitError,
        WorkspaceRef,
        WorkspaceTimeoutError,
        WorkspaceUnavailableError,
    )
except ModuleNotFoundError as error:
    hint = "install it with: pip install 'stockade[pydantic-ai]'"
    raise ModuleNotFoundError(f"{error}; {hint}", name=error.name) from error

__all__ = ["DEFAULT_POLICY", "StockadeWorkspace", "StockadeWorkspaceBackend"]
_PROVIDER = "stockade"
_LIFETIME = 3600.0
_kept: dict[str, tuple[float, Any]] = {}
"""The sandboxes that backends of this process have made, and when each is over. A run must not end its own."""


class StockadeWorkspaceBackend:
    """The commands and the files of an agent, in a living sandbox of this process.

    Without arguments, the first operation makes a sandbox under ``DEFAULT_POLICY``. ``policy`` and ``options`` are
    those of ``stockade.Sandbox.create``. ``ref`` names one that an earlier backend has made. ``sandbox`` is one of
    yours, or another object with the methods of ``AsyncSandbox``.

    The sandbox lasts until ``close``, until its ``idle_timeout`` or ``max_lifetime``, or until the process ends.
    """

    def __init__(
        self, sandbox: Any = None, *, ref: WorkspaceRef | None = None, policy: Any = None, **options: Any
    ) -> None:
        if sandbox is not None and (ref is not None or policy is not None or options):
            raise TypeError("sandbox= is one that you have made: pass its policy and options to Sandbox.create")
        self._sandbox = AsyncSandbox(sandbox) if isinstance(sandbox, Sandbox) else sandbox
        self._ref = ref if sandbox is None else WorkspaceRef(provider=_PROVIDER, id=sandbox.id)
        self._policy = DEFAULT_POLICY if policy is None else policy
        self._options = {"max_lifetime": _LIFETIME, **options}
        self._folder = ""
        self._turn = asyncio.Lock()

    @property
    def ref(self) -> WorkspaceRef | None:
        """The name of the sandbox; ``None`` until there is one."""
        return self._ref

    async def _open(self) -> Any:
        """Return the sandbox; make it, or find it by its name, at the first call."""
        async with self._turn:
            if self._sandbox is None and self._ref is not None:
                _, self._sandbox = _kept.get(self._ref.id, (0.0, None))
                if self._sandbox is None:
                    raise WorkspaceUnavailableError(f"no sandbox {self._ref.id!r} of this process; it may have ended")
            if self._sandbox is None:
                made = self._sandbox = await AsyncSandbox.create(self._policy, **self._options)
                self._ref = WorkspaceRef(provider=_PROVIDER, id=made.id)
                _kept[made.id] = time.monotonic() + self._options["max_lifetime"], made
                await _forget_old()
            return self._sandbox

    async def close(self) -> None:
        """End the sandbox, with everything in it. A backend without one has nothing to end."""
        if self._ref is not None:
            _, sandbox = _kept.pop(self._ref.id, (0.0, self._sandbox))
            if sandbox is not None:
                await sandbox.close()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Any]:
        """Yield the sandbox, and raise its errors as pydantic-ai expects them."""
        sandbox = await self._open()
        try:
            yield sandbox
        except SandboxClosed as error:
            raise WorkspaceUnavailableError(str(error)) from error
        except SessionEnded as error:
            raise await _ended(sandbox, error) from error
        except FileRefused as error:
            raise OSError(errno.EINVAL, str(error)) from error
        except JobError as error:
            raise ValueError(str(error)) from error

    # -- commands ----------------------------------------------------------------------------------------------

    async def working_dir(self) -> str:
        """Return the folder in which commands start."""
        if not self._folder:
            self._folder = (await self.run(["pwd", "-P"])).stdout.removesuffix("\n")
        return self._folder

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command. Standard error names a limit that ended it, except time and output, which raise."""
        if isinstance(command, str) != shell:
            raise TypeError("a text needs shell=True, and a list of arguments shell=False")
        if timeout is not None and not 0 < timeout < math.inf:
            raise ValueError(f"timeout = {timeout!r}: a positive number of seconds")
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        async with self._opened() as sandbox:
            seconds = lowered(sandbox, Guarantee.WALL_TIME, timeout)
            return _answer(argv, await sandbox.run_command(argv, environment=env, timeout=seconds), sandbox)

    # -- files -------------------------------------------------------------------------------------------------

    async def read_bytes(self, path: str) -> bytes:
        """Return the content of a regular file."""
        async with self._opened() as sandbox:
            content: bytes = await sandbox.files.read_bytes(path)
            return content

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file whole, with the folders above it."""
        async with self._opened() as sandbox:
            await sandbox.files.write(path, data)

    async def stat(self, path: str) -> FileEntry:
        """Return what the sandbox knows about a file or folder."""
        async with self._opened() as sandbox:
            return _entry(path, await sandbox.files.stat(path))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """Return the entries of a folder."""
        async with self._opened() as sandbox:
            entries = []
            for each in await sandbox.files.list(path):
                inner, found = posixpath.join(path, each.path), each
                if each.kind == "link":
                    try:
                        found = await sandbox.files.stat(inner)
                    except OSError:
                        found = each  # it leads nowhere
                entries.append(_entry(inner, found))
            return entries

    async def make_dir(self, path: str) -> None:
        """Make a folder, and its parents."""
        async with self._opened() as sandbox:
            await sandbox.files.make_dir(path)

    async def remove(self, path: str) -> None:
        """Remove a file, a link, or a folder with all that is in it; never the working folder or one above it."""
        root = await self.working_dir()
        target = posixpath.join(await self.realpath(posixpath.dirname(path)), posixpath.basename(path))
        if posixpath.commonpath([root, target]) == posixpath.normpath(target):
            raise ValueError(f"{path!r}: the working folder {root!r} is in it")
        async with self._opened() as sandbox:
            await sandbox.files.remove(path, recursive=True)

    async def exists(self, path: str) -> bool:
        """Return whether the sandbox has a file or folder here."""
        async with self._opened() as sandbox:
            found: bool = await sandbox.files.exists(path)
            return found

    async def realpath(self, path: str) -> str:
        """Return the path with its links resolved, inside the sandbox. Missing parts stay as they are."""
        async with self._opened() as sandbox:
            result: Result = await sandbox.run_command(["realpath", "-mz", "--", path])
        if not result.ok:
            raise OSError(errno.ELOOP, f"{path!r}: {result.stderr or result.summary()}")
        return os.fsdecode(result.stdout_bytes.removesuffix(b"\0"))


@dataclass
class StockadeWorkspace(AbstractCapability[AgentDepsT]):
    """Gives each run of an agent a sandbox of its own, or the one of the message history if that still lives.

    ``Agent(..., capabilities=[StockadeWorkspace()])``. ``policy`` and ``options`` are those of
    ``stockade.Sandbox.create``. Files have no authority: the model wrote them.
    """

    policy: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def get_workspace(self, ctx: RunContext[AgentDepsT], *, ref: WorkspaceRef | None) -> WorkspaceBackend | None:
        """Return the workspace of a run. Nothing starts before its first use."""
        if ref is not None and ref.provider != _PROVIDER:
            return None
        backend = StockadeWorkspaceBackend(ref=ref, policy=self.policy, **self.options)
        return AuthorityWorkspace(Workspace(backend), authority="none")


def _answer(argv: Sequence[str], result: Result, sandbox: Any) -> CommandResult:
    """Return a result in the words of pydantic-ai, or raise what it expects."""
    stdout, stderr = result.stdout, result.stderr
    if result.limit is Guarantee.WALL_TIME:
        raise WorkspaceTimeoutError(f"{argv[0]}: {remark(result)}", stdout=stdout, stderr=stderr)
    if result.outcome is Outcome.CANCELLED:
        raise WorkspaceUnavailableError(f"{argv[0]}: the sandbox was closed")
    if result.outcome is Outcome.SANDBOX_FAILED:
        raise WorkspaceError(f"{argv[0]}: {result.summary()}")
    if result.stdout_truncated or result.stderr_truncated:
        most = int(lowered(sandbox, Guarantee.OUTPUT, None) or 0)
        advice = f"more than {most} bytes of output: write it to a file, and read parts of it"
        raise WorkspaceOutputLimitError(f"{argv[0]}: {advice}", limit=most, stdout=stdout, stderr=stderr)
    reason = "" if stderr or result.error is None else result.error.message
    stderr = "\n".join(filter(None, (stderr or reason, remark(result))))
    return CommandResult(exit_code=status_of(result), stdout=stdout, stderr=stderr)


def _entry(path: str, found: Any) -> FileEntry:
    name = posixpath.basename(posixpath.normpath(path))
    size = found.size if found.kind == "file" else None
    return FileEntry(name=name, path=path, is_dir=found.kind == "directory", size=size)


async def _ended(sandbox: Any, error: SessionEnded) -> WorkspaceError:
    """Return the error for files that do not answer: the sandbox is gone, or its guest has killed their agent."""
    try:
        await sandbox.usage()
    except SandboxClosed:
        return WorkspaceUnavailableError(str(error))
    return WorkspaceError(f"{error}; try again")


async def _forget_old() -> None:
    """Close what has outlived its ``max_lifetime``, and so has ended by itself."""
    over = [name for name, (end, _) in _kept.items() if end < time.monotonic()]
    for sandbox in [_kept.pop(name)[1] for name in over]:  # no other task finds them any more
        await sandbox.close()
