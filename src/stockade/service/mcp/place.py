"""Where the tools of an MCP session over HTTP run code: in a living sandbox of the service worker.

This is the front's side. It keeps the id of the sandbox, and a call that holds it: the sandbox ends with that call,
whether the session ends or the front is killed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from stockade.api.sessions.files import FileInfo
from stockade.api.sessions.link import SessionEnded
from stockade.api.sessions.records import CellOutput, CellResult, Display
from stockade.core.errors import SandboxClosed
from stockade.integrations.mcp import DEFAULT_LIMITS
from stockade.integrations.mcp.places import Held, Keeping, Remedies
from stockade.policy.guarantees import Enforcement, Guarantee, Strength
from stockade.runs.result import Result
from stockade.service.client_steps import ServiceError, error_of
from stockade.service.errors import Refused
from stockade.service.living.calls import OwnerGone
from stockade.service.living.cells import loaded
from stockade.service.living.place import Place, lost, row_of
from stockade.service.living.remote_steps import error_in
from stockade.service.living.requests import Call, CellRequest, CommandRequest, SandboxRequest
from stockade.service.requests import RunRequest

if TYPE_CHECKING:
    from stockade.service.keys import Key
    from stockade.service.state import State

IDLE_SECONDS = 600.0
MOST_CALLS = 16
"""Calls of one session at a time. A call outlives the request that began it, so connections do not bound them."""
_START_SECONDS = 120.0
_CLOSE_SECONDS = 30.0
_PYTHON = "python"
_REMEDIES = Remedies(
    more="the operator of the service raises its limit on {}",
    package="the operator of the service installs {} for its Python",
    target="the operator of the service can open single targets in its policy",
)


class _Open(NamedTuple):
    """A sandbox, and the task of the call that holds it, which ends with the sandbox."""

    id: str
    held: asyncio.Task[None]


class ServicePlace(Keeping):
    """The place of one MCP session: a living sandbox of its key, under the service's policy and ceilings."""

    remedies = _REMEDIES

    def __init__(self, state: State, key: Key) -> None:
        own = state.settings.policy.get("limits", {})
        self._limits = {name: value for name, value in DEFAULT_LIMITS.items() if name not in own}
        super().__init__(state.policies.of(RunRequest(source="", limits=self._limits)))
        self._state, self._key = state, key
        self._open: _Open | None = None
        self._calls = 0
        self._stale = False
        """Whether the interpreter has ended, so the next cell needs a fresh one."""

    async def held(self) -> Held:
        """Return what is guaranteed in the sandbox. Start it for this if it does not exist yet."""
        found = json.loads(await self._asked("plan"))
        enforcement = {
            Guarantee(name): Enforcement(each["mechanism"], Strength(each["strength"]), each["note"])
            for name, each in found["enforcement"].items()
        }
        return Held(found["backend"], found["isolation"], enforcement)

    async def run_code(
        self,
        code: str,
        seconds: float,
        on_event: Callable[[CellOutput | Display], None],  # noqa: ARG002 - the worker answers once, at the end
    ) -> CellResult:
        """Run Python code in the interpreter, started again if it has ended. ``on_event`` gets nothing here."""
        async with self._turn:
            if self._stale:
                with suppress(SandboxClosed):
                    await self._ask(self._open, "restart", language=_PYTHON)
                    self._news = self.AFRESH
                self._stale = False
        try:
            request = CellRequest(source=code, timeout=seconds)
            found = loaded(json.loads(await self._asked("cell", request, language=_PYTHON)))
        except SessionEnded:
            self._stale = True
            raise
        self._stale = self._stale or bool(found.ended)
        return found

    async def run_command(self, argv: list[str], *, cwd: str | None, stdin: str | None, seconds: float) -> Result:
        """Run a command."""
        request = CommandRequest(argv=argv, cwd=cwd, stdin=stdin, timeout=seconds)
        return Result.from_dict(json.loads(await self._asked("command", request, shape="full")))

    async def write(self, path: str, data: bytes) -> None:
        """Write a whole file, with the folders above it."""
        await self._asked("write", data, path=path)

    async def read(self, path: str) -> bytes:
        """Return the content of a file, of as many bytes as the service takes in a request."""
        return await self._asked("read", path=path)

    async def list(self, path: str, most: int) -> Sequence[FileInfo]:
        """Return the entries of a folder, of at most ``most``."""
        return [FileInfo(**each) for each in json.loads(await self._asked("list", path=path))[:most]]

    async def close(self) -> None:
        """End the sandbox. The next call starts a fresh one."""
        async with self._turn:
            self._news, self._stale = "", False
            found, self._open = self._open, None
            if found is None:
                return
            try:
                with suppress(Exception):  # it has ended, or it ends with the call that holds it
                    await self._ask(found, "close")
            finally:
                found.held.cancel()

    async def _asked(self, do: str, body: BaseModel | bytes = b"", **what: Any) -> bytes:
        """Have the worker do something in the sandbox, and return the answer's body. Start the sandbox if need be."""
        if self._calls >= MOST_CALLS:
            raise ServiceError(
                f"{self._calls} calls of this session run, which is the most; wait for one, or cancel it"
            )
        self._calls += 1
        try:
            async with self._turn:
                found = await self._started()
            return await self._ask(found, do, body, **what)
        finally:
            self._calls -= 1

    async def _ask(self, found: _Open | None, do: str, body: BaseModel | bytes = b"", **what: Any) -> bytes:
        if found is None or found.held.done():
            raise SandboxClosed("the sandbox has ended")
        with _errors():
            place = Place(await row_of(found.id, self._state, self._key), self._state, self._key)
            seconds = _CLOSE_SECONDS if do == "close" else place.seconds
            return await self._sent(place.call(do=do, **what), body, seconds)

    async def _started(self) -> _Open:
        """Return the sandbox. Start one for the first call, and after its end."""
        if self._open is not None and self._open.held.done():
            self._open, self._news, self._stale = None, self.ENDED, False
        if self._open is None:
            request = SandboxRequest(limits=self._limits, idle_timeout=IDLE_SECONDS)
            call = Call(do="create", holder=self._state.calls.holder, key=self._key.id, key_name=self._key.name)
            with _errors():
                made = json.loads(await self._sent(call, request, _START_SECONDS))
            hold = call.model_copy(update={"do": "hold", "sandbox": made["id"]})
            self._open = _Open(made["id"], asyncio.create_task(self._hold(hold)))
        return self._open

    async def _hold(self, call: Call) -> None:
        """Hold a sandbox until it ends. If this task is cancelled, it ends the sandbox."""
        with suppress(Refused):
            async with self._state.calls.begun(call, b"") as end:
                await asyncio.wait([end])

    async def _sent(self, call: Call, body: BaseModel | bytes, seconds: float) -> bytes:
        content = body if isinstance(body, bytes) else body.model_dump_json().encode()
        try:
            answer, found = await self._state.calls.ask(call, content, seconds)
        except OwnerGone:
            raise lost(self._state, call) from None
        if answer.status < 400:
            return found
        problem = json.loads(found)
        raise error_in(problem) or error_of(answer.status, problem)


@contextmanager
def _errors() -> Iterator[None]:
    """Raise the refusal of a call as an error of the library, which a tool reports to the model."""
    try:
        yield
    except Refused as refused:
        if refused.status == 410:
            raise SandboxClosed(str(refused)) from None
        raise ServiceError(str(refused), refused.status) from None
