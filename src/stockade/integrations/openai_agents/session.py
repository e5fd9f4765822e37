"""A session of the OpenAI Agents SDK over a living sandbox."""

from __future__ import annotations

import asyncio
import io
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NoReturn

from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
    WorkspaceWriteTypeError,
)
from agents.sandbox.session import SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    clamp_pty_yield_time_ms,
    process_id_to_prune_from_meta,
    resolve_pty_write_yield_time_ms,
    truncate_text_by_tokens,
)
from agents.sandbox.types import ExecResult, ExposedPortEndpoint, User

from stockade.api.asynchronous.sandbox import AsyncSandbox
from stockade.api.ports import Forward
from stockade.api.sessions.files import FileRefused
from stockade.api.sessions.link import SessionEnded
from stockade.backends.shared.guest_environment import WORKSPACE
from stockade.core.errors import JobError, SandboxClosed, StockadeError
from stockade.integrations.living import lowered, remark, status_of
from stockade.integrations.openai_agents.processes import PIECE, RunningProcess
from stockade.policy.guarantees import Guarantee
from stockade.runs.result import Outcome, Result

_ROOT = Path(WORKSPACE)
_ARCHIVE_SECONDS = 600.0
_INPUT_SECONDS = 10.0
_IN_MEMORY = 16 << 20
_NO_COMMAND = 126  # as a shell reports what it cannot execute


class StockadeSandboxSessionState(SandboxSessionState):
    """The stored state of a session: the name of its sandbox, and nothing about its policy."""

    type: Literal["stockade"] = "stockade"
    sandbox: str = ""


class StockadeSandboxSession(BaseSandboxSession):
    """The commands, processes and files of one session, in one living sandbox. ``StockadeSandboxClient`` makes it."""

    state: StockadeSandboxSessionState

    def __init__(
        self,
        state: StockadeSandboxSessionState,
        create: Callable[[], Awaitable[AsyncSandbox]],
        opened: dict[str, AsyncSandbox],
    ) -> None:
        """``opened`` are the sandboxes of the client that live, by name."""
        self.state = state
        self._create, self._opened = create, opened
        self._sandbox: AsyncSandbox | None = None
        self._running: dict[int, RunningProcess] = {}
        self._forwards: dict[int, Forward] = {}

    # -- the life of the session ---------------------------------------------------------------------------------

    async def _ensure_backend_started(self) -> None:
        if self._sandbox is not None:
            if not await self.running():
                raise WorkspaceStartError(
                    path=_ROOT, context={"reason": "the sandbox has ended, and its files with it"}
                )
            return
        self._sandbox = self._opened.get(self.state.sandbox)
        found = self._sandbox is not None and await self.running()
        if not found:
            self._sandbox = await self._create()
        assert self._sandbox is not None
        self._set_start_state_preserved(found)
        self.state.sandbox = self._sandbox.id
        self._opened[self._sandbox.id] = self._sandbox

    async def running(self) -> bool:
        """Return whether the sandbox lives."""
        if self._sandbox is None:
            return False
        try:
            await self._sandbox.usage()
        except SandboxClosed:
            return False
        return True

    async def _shutdown_backend(self) -> None:
        if self._sandbox is not None:
            self._opened.pop(self._sandbox.id, None)
            await self._sandbox.close()

    @property
    def _living(self) -> AsyncSandbox:
        if self._sandbox is None:
            raise SandboxClosed("the session has not started: await session.start()")
        return self._sandbox

    async def _context(self) -> dict[str, Any]:
        return {"cwd": WORKSPACE, "environment": await self.state.manifest.environment.resolve()}

    # -- commands ------------------------------------------------------------------------------------------------

    def _prepare_exec_command(
        self, *command: str | Path, shell: bool | list[str], user: str | User | None
    ) -> list[str]:
        _refuse_user(user)
        # a login shell would replace the PATH of the sandbox, and with it that of packages
        plain = ["sh", "-c"] if shell is True else shell
        prepared: list[str] = super()._prepare_exec_command(*command, shell=plain, user=None)
        return prepared

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        sandbox = self._living
        seconds = lowered(sandbox, Guarantee.WALL_TIME, timeout)
        try:
            result = await sandbox.run_command(
                [str(each) for each in command], timeout=seconds, **await self._context()
            )
        except JobError as error:
            return ExecResult(stdout=b"", stderr=f"stockade: {error}".encode(), exit_code=_NO_COMMAND)
        except SandboxClosed as error:
            raise ExecTransportError(command=command, message=str(error), cause=error, retryable=False) from error
        return _exec_result(command, result, seconds)

    # -- processes that go on ------------------------------------------------------------------------------------

    def supports_pty(self) -> bool:
        """Return that commands can go on after the call that started them."""
        return True

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Start a command, and return what it has written when it ends or ``yield_time_s`` is over."""
        argv, sandbox = self._prepare_exec_command(*command, shell=shell, user=user), self._living
        try:
            how = await self._context() | {"timeout": timeout}
            process: Any = await (
                sandbox.terminal(argv, **how) if tty else sandbox.start_command(argv, stdin="none", **how)
            )
        except JobError as error:
            return PtyExecUpdate(None, f"stockade: {error}".encode(), _NO_COMMAND, None)
        except SandboxClosed as error:
            raise ExecTransportError(command=command, message=str(error), cause=error, retryable=False) from error
        number = allocate_pty_process_id(set(self._running))
        self._running[number] = RunningProcess(process, terminal=tty)
        await self._prune()
        wait = clamp_pty_yield_time_ms(10_000 if yield_time_s is None else int(yield_time_s * 1000))
        return await self._update(number, wait / 1000, max_output_tokens)

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Type into the terminal of a process, and return what the process writes from then on."""
        running = self._resolve_pty_session_entry(pty_processes=self._running, session_id=session_id)
        if chars:
            if not running.terminal:
                raise RuntimeError("stdin is not available for this process")  # the SDK knows this text
            with suppress(BrokenPipeError):  # the update has its end
                await running.process.stdin.write(chars.encode("utf-8", "replace"), timeout=_INPUT_SECONDS)
        wait = 250 if yield_time_s is None else int(yield_time_s * 1000)
        wait = resolve_pty_write_yield_time_ms(yield_time_ms=wait, input_empty=not chars)
        return await self._update(session_id, wait / 1000, max_output_tokens)

    async def pty_terminate_all(self) -> None:
        """End all processes that an agent has left."""
        running = list(self._running.values())
        self._running.clear()
        for each in running:
            await each.end()

    async def _update(self, number: int, seconds: float, most_tokens: int | None) -> PtyExecUpdate:
        running = self._running[number]
        try:
            await running.wait(seconds)
        except StockadeError as error:
            self._running.pop(number, None)
            raise ExecTransportError(command=running.process.argv, message=str(error), cause=error) from error
        running.last_used = time.monotonic()
        text, tokens = truncate_text_by_tokens(running.take(), most_tokens)
        if running.ended:
            self._running.pop(number, None)
        return PtyExecUpdate(
            process_id=None if running.ended else number,
            output=text.encode("utf-8", "replace"),
            exit_code=running.exit_code,
            original_token_count=tokens,
        )

    async def _prune(self) -> None:
        """End the process that was used the longest time ago, if there are too many."""
        if len(self._running) > PTY_PROCESSES_MAX:
            known = [(number, each.last_used, each.ended) for number, each in self._running.items()]
            oldest = process_id_to_prune_from_meta(known)
            if oldest is not None:
                await self._running.pop(oldest).end()

    # -- files ---------------------------------------------------------------------------------------------------

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        """Return the content of a regular file."""
        _refuse_user(user)
        inside = await self._validate_path_access(path)
        try:
            return io.BytesIO(await self._living.files.read_bytes(str(inside)))
        except FileNotFoundError as error:
            raise WorkspaceReadNotFoundError(path=path, cause=error) from error
        except (OSError, FileRefused, SessionEnded, JobError, SandboxClosed) as error:
            _failed(WorkspaceArchiveReadError(path=path, cause=error), error)

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        """Write a file whole, with the folders above it."""
        _refuse_user(user)
        inside = await self._validate_path_access(path, for_write=True)
        content = data.read()
        if not isinstance(content, str | bytes | bytearray):
            raise WorkspaceWriteTypeError(path=path, actual_type=type(content).__name__)
        try:
            await self._living.files.write(str(inside), content if isinstance(content, str) else bytes(content))
        except (OSError, FileRefused, SessionEnded, JobError, SandboxClosed) as error:
            _failed(WorkspaceArchiveWriteError(path=path, cause=error), error)

    # -- the workspace as an archive -------------------------------------------------------------------------------

    def _should_compute_snapshot_fingerprint_on_persist(self) -> bool:
        return False  # it tells whether a workspace that was kept has changed, and ours end with their session

    async def persist_workspace(self) -> io.IOBase:
        """Return the workspace as an archive, which is made inside. Its size is bounded as the disk is."""
        left_out = [f"--exclude=./{each.as_posix()}" for each in sorted(self._persist_workspace_skip_relpaths())]
        argv = ["tar", "--anchored", "--no-wildcards", *left_out, "--ignore-failed-read", "-C", str(_ROOT)]
        most = int(lowered(self._living, Guarantee.DISK, None) or _IN_MEMORY) + _IN_MEMORY
        archive = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - the SDK reads and closes it
        process = await self._living.start_command(
            [*argv, "-cf", "-", "."], stdin="none", stderr="/dev/null", timeout=_ARCHIVE_SECONDS
        )
        async with process:
            while piece := await process.stdout.read(PIECE):
                await asyncio.to_thread(archive.write, piece)
                if archive.tell() > most:
                    reason = f"the archive has more than {most} bytes, as with files that are mostly holes"
                    raise WorkspaceArchiveReadError(path=_ROOT, context={"reason": reason})
            result = await process.wait()
        if result.exit_code not in (0, 1):  # 1: a file changed while it was read
            raise WorkspaceArchiveReadError(path=_ROOT, context={"reason": f"tar: {result.summary()}"})
        archive.seek(0)
        return archive

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Unpack an archive, inside and as the guest: its entries can do what code of the guest can do."""
        argv = ["tar", "--no-same-owner", "-C", str(_ROOT), "-xf", "-"]
        running = RunningProcess(await self._living.start_command(argv, timeout=_ARCHIVE_SECONDS))
        try:
            while piece := await asyncio.to_thread(data.read, PIECE):
                await running.process.stdin.write(piece, timeout=_ARCHIVE_SECONDS)
            running.process.stdin.close()
        except BrokenPipeError:
            pass  # its exit status says why
        except BaseException:
            await running.end()
            raise
        await running.wait()
        if running.exit_code != 0:
            raise WorkspaceArchiveWriteError(path=_ROOT, context={"reason": running.take()[:10_000]})

    # -- ports ---------------------------------------------------------------------------------------------------

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        if port not in self._forwards:
            try:
                self._forwards[port] = await self._living.forward(port)
            except (JobError, OSError, SandboxClosed) as error:
                raise ExposedPortUnavailableError(
                    port=port, exposed_ports=self.state.exposed_ports, reason=str(error), cause=error
                ) from error
        return ExposedPortEndpoint(host="127.0.0.1", port=self._forwards[port].port, tls=False)


def _exec_result(command: tuple[str | Path, ...], result: Result, seconds: float | None) -> ExecResult:
    """Return a result in the words of the SDK, or raise what it expects."""
    if result.limit is Guarantee.WALL_TIME:
        context = {"stdout": result.stdout, "stderr": result.stderr, "reason": remark(result)}
        raise ExecTimeoutError(command=command, timeout_s=seconds, context=context)
    if result.outcome in (Outcome.CANCELLED, Outcome.SANDBOX_FAILED):
        raise ExecTransportError(command=command, message=result.summary(), retryable=False)
    reason = "" if result.stderr or result.error is None else result.error.message
    stderr = "\n".join(filter(None, (result.stderr or reason, remark(result))))
    raw = stderr == result.stderr and not result.stderr_truncated
    return ExecResult(
        stdout=result.stdout.encode() if result.stdout_truncated else result.stdout_bytes,
        stderr=result.stderr_bytes if raw else stderr.encode(),
        exit_code=status_of(result),
    )


def _refuse_user(user: str | User | None) -> None:
    if user is not None:
        name = user.name if isinstance(user, User) else user
        raise ValueError(f"user {name!r}: a sandbox has one user, without rights; leave it out")


def _failed(refusal: WorkspaceArchiveReadError | WorkspaceArchiveWriteError, error: Exception) -> NoReturn:
    """Raise the SDK's error with the reason in its text, which is what a model reads."""
    refusal.message = f"{refusal.context['path']}: {error}"
    refusal.args = (refusal.message,)
    raise refusal from error
