"""Where the tools of one client run code: in one sandbox that lives, or each call in a fresh one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stockade.api.asynchronous.runner import AsyncRunner
from stockade.api.asynchronous.sandbox import AsyncSandbox
from stockade.api.asynchronous.sessions import AsyncInterpreter
from stockade.api.brokered import check
from stockade.api.creating import chosen_for
from stockade.api.exec_limits import checked_seconds
from stockade.api.job_arguments import job_from_command
from stockade.api.programs import command_of
from stockade.api.runner import Runner
from stockade.api.sessions.files import LONGEST_FILE
from stockade.api.sessions.records import CellLimits
from stockade.core.errors import BackendUnavailable, PlanError, SandboxClosed
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from stockade.api.select import Selection
    from stockade.api.sessions.files import FileInfo
    from stockade.api.sessions.records import CellOutput, CellResult, Display
    from stockade.planning.plan import Plan
    from stockade.policy.ceiling import Given
    from stockade.policy.guarantees import Enforcement
    from stockade.policy.model import Policy, PolicyLike
    from stockade.runs.result import Result

DEFAULT_LIMITS: Mapping[str, Any] = {
    "wall_time": "10min", "cpu_time": "10min", "memory": "1GiB", "disk": "512MiB", "file_size": "256MiB",
    "processes": 128, "open_files": 1024, "output": "1MiB",
}  # fmt: skip
"""The limits of a client's sandbox where nothing else is said."""
LIFETIME = 24 * 3600.0
_LONGEST = 3600.0
_PICTURES = 8 << 20


class Remedies(NamedTuple):
    """The people who can change a place, and how, as ends of sentences in which {} is the limit or the package."""

    more: str
    package: str
    target: str


LOCAL = Remedies(
    more="the user starts 'stockade mcp' with --limit {}=MORE",
    package="the user starts 'stockade mcp' with --with {}",
    target="the user can open single targets by --allow HOST:443 when starting 'stockade mcp'",
)


class Held(NamedTuple):
    """The backend of a place, and what holds each guarantee."""

    backend: str
    isolation: str
    enforcement: Mapping[Guarantee, Enforcement]

    @classmethod
    def by(cls, plan: Plan) -> Held:
        """Return what a plan says."""
        return cls(plan.backend, plan.isolation.value, plan.enforcement)


class Place:
    """The common part of all kinds of place: a policy, and the longest time of a call."""

    keeps_state = False
    remedies = LOCAL

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @property
    def longest(self) -> float:
        """The most seconds that one call may take."""
        return self.policy.limits.figure(Guarantee.WALL_TIME) or _LONGEST

    async def held(self) -> Held:
        """Return what is guaranteed here."""
        raise NotImplementedError

    async def close(self) -> None:
        """End everything that runs here."""


class Keeping(Place):
    """A place with a single sandbox for all calls. It starts at the first call, and a fresh one after its end."""

    keeps_state = True
    ENDED = "The sandbox had ended; this is a fresh one: files and variables of earlier calls are gone."
    AFRESH = "The interpreter is a fresh one: variables of earlier calls are gone, files are kept."

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._turn = asyncio.Lock()
        self._news = ""

    def news(self) -> str:
        """Return what the client must know of a restart since the last answer; empty without a restart."""
        news, self._news = self._news, ""
        return news

    async def run_code(self, code: str, seconds: float, on_event: Callable[[CellOutput | Display], None]) -> CellResult:
        """Run Python code in the interpreter, started again if it has ended. ``on_event`` may get its output."""
        raise NotImplementedError

    async def run_command(self, argv: list[str], *, cwd: str | None, stdin: str | None, seconds: float) -> Result:
        """Run a command."""
        raise NotImplementedError

    async def write(self, path: str, data: bytes) -> None:
        """Write a whole file, with the folders above it."""
        raise NotImplementedError

    async def read(self, path: str) -> bytes:
        """Return the content of a file."""
        raise NotImplementedError

    async def list(self, path: str, most: int) -> Sequence[FileInfo]:
        """Return the entries of a folder, of at most ``most``."""
        raise NotImplementedError


class Single(Place):
    """Each call runs in a fresh sandbox. It is for hosts and backends where no sandbox can live."""

    def __init__(self, policy: PolicyLike, how: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self.plan = Runner(policy, **how).plan
        super().__init__(self.plan.policy)
        _check(self.plan, options)
        self._policy, self._how = policy, how
        self.options = options

    async def held(self) -> Held:
        """Return what is guaranteed here."""
        return Held.by(self.plan)

    def runner(self, seconds: float) -> AsyncRunner:
        """Return a runner whose runs take ``seconds`` at most."""
        return AsyncRunner(self._policy, timeout=seconds, **self._how)


class Living(Keeping):
    """The place of a local server: a sandbox of this process."""

    def __init__(self, chosen: Selection, options: Mapping[str, Any]) -> None:
        super().__init__(chosen.plan.policy)
        self.plan = chosen.plan
        self._options = options
        self._sandbox: AsyncSandbox | None = None
        self._interpreter: AsyncInterpreter | None = None

    async def held(self) -> Held:
        """Return what is guaranteed here."""
        return Held.by(self.plan)

    async def run_code(self, code: str, seconds: float, on_event: Callable[[CellOutput | Display], None]) -> CellResult:
        """Run Python code in the interpreter, started again if it has ended. ``on_event`` gets its output."""
        return await (await self._python()).run(code, timeout=seconds, on_event=on_event)

    async def run_command(self, argv: list[str], *, cwd: str | None, stdin: str | None, seconds: float) -> Result:
        """Run a command."""
        return await (await self._started()).run_command(argv, cwd=cwd, stdin=stdin, timeout=seconds)

    async def write(self, path: str, data: bytes) -> None:
        """Write a whole file, with the folders above it."""
        await (await self._started()).files.write(path, data)

    async def read(self, path: str) -> bytes:
        """Return the content of a file."""
        content: bytes = await (await self._started()).files.read_bytes(path, max_bytes=LONGEST_FILE)
        return content

    async def list(self, path: str, most: int) -> Sequence[FileInfo]:
        """Return the entries of a folder, of at most ``most``."""
        found: Sequence[FileInfo] = await (await self._started()).files.list(path, max_entries=most)
        return found

    async def _started(self) -> AsyncSandbox:
        async with self._turn:
            return await self._open()

    async def _python(self) -> AsyncInterpreter:
        async with self._turn:
            sandbox = await self._open()
            if self._interpreter is not None and not self._interpreter.alive:
                self._interpreter, self._news = None, self.AFRESH
            if self._interpreter is None:
                self._interpreter = await sandbox.interpreter(limits=self._cell_limits())
            return self._interpreter

    def _cell_limits(self) -> CellLimits:
        output = self.policy.limits.figure(Guarantee.OUTPUT)
        own = {} if output is None else {"output": int(output)}
        return CellLimits(display_bytes=_PICTURES, **own)

    async def _open(self) -> AsyncSandbox:
        if self._sandbox is not None:
            try:
                await self._sandbox.usage()
            except SandboxClosed:
                await self._drop()
                self._news = self.ENDED
        if self._sandbox is None:
            self._sandbox = await AsyncSandbox.create(self.policy, **self._options)
        return self._sandbox

    async def _drop(self) -> None:
        sandbox, self._sandbox, self._interpreter = self._sandbox, None, None
        if sandbox is not None:
            await sandbox.close()

    async def close(self) -> None:
        """End the sandbox. The next call starts a fresh one."""
        async with self._turn:
            self._news = ""
            await self._drop()


def choose(
    policy: PolicyLike | None = None,
    *,
    backend: str | None = None,
    trust: str | None = None,
    ceiling: Given | None = None,
    idle_timeout: float | None = 600.0,
    max_lifetime: float = LIFETIME,
    **options: Any,
) -> Living | Single:
    """Return where calls run under ``policy``: in a sandbox that lives if this host can keep one.

    The arguments are those of ``Sandbox.create``. Without ``policy``, the limits are ``DEFAULT_LIMITS``. Raises
    ``PlanError`` or ``BackendUnavailable`` if no backend here holds the policy.
    """
    policy = {"limits": DEFAULT_LIMITS} if policy is None else policy
    idle = None if idle_timeout is None else checked_seconds("idle_timeout", idle_timeout)
    how: dict[str, Any] = {"backend": backend, "trust": trust, "ceiling": ceiling}
    try:
        chosen = chosen_for(policy, {}, None, None, **how)
    except (BackendUnavailable, PlanError):
        return Single(policy, how, options)
    _check(chosen.plan, options)
    own = {**how, "idle_timeout": idle, "max_lifetime": max_lifetime, **options}
    return Living(chosen, own)


def _check(plan: Plan, options: Mapping[str, Any]) -> None:
    """Raise ``JobError`` for options that would fail at the first call."""
    job = job_from_command(["sh"], **options)
    check(job.secrets, None, plan.policy)
    command_of(job, plan, shows_programs=False)
