"""A sandbox for inspect_ai: each sample of an evaluation gets a living sandbox. ``pip install 'stockade[inspect]'``.

inspect_ai finds it by the entry point: ``Task(..., sandbox="stockade")``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, overload

from pydantic import BaseModel, ConfigDict, Field

from stockade.api.asynchronous.sandbox import AsyncSandbox
from stockade.api.asynchronous.sessions import AsyncFiles
from stockade.api.sessions.files import FileRefused, Files
from stockade.api.sessions.link import SessionEnded
from stockade.core.errors import JobError, SandboxClosed
from stockade.integrations.living import DEFAULT_POLICY, lowered, status_of
from stockade.policy.guarantees import Guarantee
from stockade.policy.model import Policy
from stockade.runs.result import Outcome, Result

try:
    from inspect_ai.tool import ToolError
    from inspect_ai.util import (
        ExecResult,
        OutputLimitExceededError,
        SandboxEnvironment,
        SandboxEnvironmentConfigType,
        SandboxUnavailableError,
        SandboxUserUnsupportedError,
        sandboxenv,
    )
    from inspect_ai.util import SandboxEnvironmentLimits as Limits
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; install it with: pip install 'stockade[inspect]'", name=error.name) from error

_FILE_SECONDS = 300.0
_DAY = 24 * 3600.0
_KEPT = (FileNotFoundError, IsADirectoryError, PermissionError, TimeoutError)


class StockadeConfig(BaseModel):
    """The configuration of an evaluation's sandboxes: ``sandbox=SandboxEnvironmentSpec("stockade", config)``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str | dict[str, Any] = Field(default_factory=lambda: dict(DEFAULT_POLICY))
    """Fields of a policy, or the name of a profile."""
    packages: str | None = None
    """A virtual environment of the host to import from."""
    environment: dict[str, str] = Field(default_factory=dict)
    max_lifetime: float = _DAY
    """Seconds after which a sample's sandbox ends, whatever happens."""


@sandboxenv(name="stockade")
class StockadeSandboxEnvironment(SandboxEnvironment):
    """The sandbox of one sample."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        super().__init__()
        self.sandbox = sandbox
        self._files = AsyncFiles(Files(partial(sandbox._inner._agent, None), timeout=_FILE_SECONDS))

    @classmethod
    def config_files(cls) -> list[str]:
        """Return the names of configuration files that inspect_ai looks for beside a task."""
        return ["stockade.toml"]

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """Return the configuration of which ``config`` is the data."""
        return StockadeConfig(**config)

    @classmethod
    def default_concurrency(cls) -> int | None:
        """Return how many sandboxes there are at a time, unless ``max_sandboxes`` says it."""
        return 2 * (os.cpu_count() or 1)

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Start the sandbox of a sample. ``config`` is a ``StockadeConfig``, or the path of a policy's file."""
        policy: Any = DEFAULT_POLICY
        options: dict[str, Any] = {"max_lifetime": _DAY}
        if isinstance(config, str):
            policy = Policy.load(config)
        elif isinstance(config, StockadeConfig):
            options = config.model_dump()
            policy = options.pop("policy")
        elif config is not None:
            raise TypeError(f"sandbox: a StockadeConfig or the path of a policy, not {type(config).__name__}")
        return {"default": cls(await AsyncSandbox.create(policy, idle_timeout=None, **options))}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """End the sandboxes of a sample, with everything in them."""
        for each in environments.values():
            await each.as_type(cls).sandbox.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002 - named by inspect_ai
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command. Standard error names a limit that ended it, except time and output, which raise."""
        if user is not None:
            raise SandboxUserUnsupportedError(f"user {user!r}: a sandbox has one user, without rights; leave it out")
        with _translated():
            result = await self.sandbox.run_command(
                cmd,
                cwd=cwd,
                environment=env,
                stdin=input,
                timeout=lowered(self.sandbox, Guarantee.WALL_TIME, timeout),
                output=int(lowered(self.sandbox, Guarantee.OUTPUT, 2 * Limits.MAX_EXEC_OUTPUT_SIZE) or 0),
            )
        return _exec_result(cmd, result)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file whole, with the folders above it."""
        with _translated():
            await self._files.write(file, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Return the content of a regular file."""
        files, most = self._files, Limits.MAX_READ_FILE_SIZE
        with _translated():
            try:
                content = await files.read_bytes(file, max_bytes=most)
            except FileRefused:
                found = await files.stat(file)
                if found.kind == "file" and found.size > most:
                    raise OutputLimitExceededError(Limits.MAX_READ_FILE_SIZE_STR, None) from None
                raise
        return content.decode() if text else content


def _exec_result(cmd: list[str], result: Result) -> ExecResult[str]:
    """Return a result in the words of inspect_ai, or raise what it expects."""
    if result.limit is Guarantee.WALL_TIME:
        late: Any = TimeoutError(f"{cmd[0]}: {result.summary()}")
        late.truncated_output = result.stdout + result.stderr  # inspect_ai shows it to the model
        raise late
    if result.outcome is Outcome.SANDBOX_FAILED:
        raise SandboxUnavailableError(result.summary())
    failed = result.error
    if failed is not None and failed.type == "NotExecutable" and "Permission denied" in failed.message:
        raise PermissionError(failed.message)
    most = Limits.MAX_EXEC_OUTPUT_SIZE
    if result.stdout_omitted or result.stderr_omitted or max(len(result.stdout_bytes), len(result.stderr_bytes)) > most:
        raise OutputLimitExceededError(Limits.MAX_EXEC_OUTPUT_SIZE_STR, result.stdout + result.stderr)
    status, stderr = status_of(result), result.stderr
    if result.outcome is Outcome.LIMIT_EXCEEDED:
        stderr = "\n".join(filter(None, (stderr.rstrip("\n"), f"stockade: {result.summary()}")))
    elif failed is not None and not stderr:
        stderr = failed.message
    return ExecResult(success=status == 0, returncode=status, stdout=result.stdout, stderr=stderr)


@contextmanager
def _translated() -> Iterator[None]:
    """Raise errors that inspect_ai hands to the model, where the model can do something about it."""
    try:
        yield
    except _KEPT:
        raise
    except (SandboxClosed, SessionEnded) as error:
        raise SandboxUnavailableError(str(error)) from error
    except (FileRefused, JobError, OSError) as error:
        raise ToolError(str(error)) from error
