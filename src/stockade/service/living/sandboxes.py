"""The living sandboxes of a service worker: their start, their number, and every way in which they end."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Row
from sqlalchemy.exc import DBAPIError

from stockade.api.asynchronous.sandbox import AsyncSandbox
from stockade.core import log
from stockade.core.errors import JobError, SandboxClosed
from stockade.service.errors import Refused
from stockade.service.living.register import Register
from stockade.service.living.requests import Call, SandboxRequest
from stockade.service.living.sandbox import Kept, Terms
from stockade.service.requests import Policies, RunRequest
from stockade.service.settings import Settings

_KEY_LABEL = "key"
_LOOK_SECONDS = 5.0
_FORGET_LOOKS = 60
_RETRY_SECONDS = 5


class LivingSandboxes:
    """The sandboxes that are open, and the register that says so."""

    def __init__(self, settings: Settings, policies: Policies, register: Register, holder: str) -> None:
        self._settings, self._policies, self._register, self._holder = settings, policies, register, holder
        self._kept: dict[str, Kept] = {}
        self._starting: Counter[int] = Counter()
        self._forking: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._unwritten: dict[str, str] = {}
        """Sandboxes that have ended, but whose end is not in the database yet."""

    def begin(self) -> None:
        """Note that sandboxes of an earlier worker are lost."""
        self._register.begin(self._holder, self._settings.keep)

    async def start(self, call: Call, request: SandboxRequest) -> Row[Any]:
        """Start a sandbox for the key of a call, and return its row. Raises ``Refused`` if there are too many."""
        if _KEY_LABEL in request.labels:
            raise JobError(f"labels: {_KEY_LABEL} is the service's own; choose another name")
        policy = self._policies.of(RunRequest(source="", limits=request.limits, policy=request.policy))
        terms = Terms(request.labels, request.idle_timeout, min(request.max_lifetime, self._settings.sandbox_lifetime))
        await self._check_space(call.key)
        with self._counted(call.key):
            sandbox = await AsyncSandbox.create(
                policy, backend=self._settings.backend, trust=self._settings.trust, environment=request.environment,
                labels={**request.labels, _KEY_LABEL: call.key_name}, idle_timeout=terms.idle,
                max_lifetime=terms.lifetime,
            )  # fmt: skip
            return await self._noted(sandbox, call.key, terms)

    async def fork(self, call: Call) -> Row[Any]:
        """Start a sandbox with copies of the files of a call's, on the same terms, and return its row.

        Raises ``Refused`` as ``start`` does. A key makes one fork at a time: this process holds all files meanwhile.
        """
        kept = self.of(call)
        await self._check_space(call.key)
        with self._counted(call.key):
            async with self._forking[call.key]:
                return await self._noted(await kept.sandbox.fork(), call.key, kept.terms)

    @contextmanager
    def _counted(self, key: int) -> Iterator[None]:
        """Count a sandbox that starts as one of its key."""
        self._starting[key] += 1
        try:
            yield
        finally:
            self._starting[key] -= 1

    async def _noted(self, sandbox: AsyncSandbox, key: int, terms: Terms) -> Row[Any]:
        """Note that a sandbox is open, and return its row; or close it."""
        try:
            row = self._register.add(
                sandbox.id, key=key, holder=self._holder, labels=terms.labels, idle=terms.idle, lifetime=terms.lifetime
            )
        except BaseException:
            await sandbox.close()
            raise
        self._kept[sandbox.id] = Kept(sandbox, key, terms)
        return row

    async def _check_space(self, key: int) -> None:
        """Raise ``Refused`` if this key, or all of them, have as many sandboxes as they may."""
        own, every = self._settings.sandboxes_of_a_key, self._settings.sandboxes
        for last in (False, True):
            of_key = self._starting[key] + sum(kept.key == key for kept in self._kept.values())
            total = self._starting.total() + len(self._kept)
            if of_key < own and total < every:
                return
            if not last:
                await self._look()  # some may have ended by themselves
        if of_key >= own:
            message = f"{of_key} sandboxes of this key are open, which is the most; close one"
            raise Refused(429, "TooManySandboxes", message, retry=_RETRY_SECONDS)
        raise Refused(503, "TooManySandboxes", f"{total} sandboxes are open, which is the most", retry=_RETRY_SECONDS)

    def of(self, call: Call) -> Kept:
        """Return the sandbox of a call. Raises ``SandboxClosed`` if its key has none of this id."""
        kept = self._kept.get(call.sandbox)
        if kept is None or kept.key != call.key:
            raise SandboxClosed("the sandbox has ended")
        return kept

    async def end(self, sandbox: str, reason: str) -> Row[Any] | None:
        """End a sandbox, if it is there, and note why."""
        kept = self._kept.pop(sandbox, None)
        if kept is None:
            return None
        try:
            await kept.close()
        except Exception as error:  # the others must end, and its own end must be noted
            log.error("sandbox %s did not close in good order: %s: %s", sandbox, type(error).__name__, error)
        finally:  # also of a call that was cancelled, which waits for the end of ``close``
            self._unwritten[sandbox] = reason
            rows = self._write_ends()
        return rows.get(sandbox)

    def _write_ends(self) -> dict[str, Row[Any] | None]:
        """Write the ends of sandboxes that the database does not have yet."""
        rows: dict[str, Row[Any] | None] = {}
        for sandbox, reason in [*self._unwritten.items()]:
            try:
                rows[sandbox] = self._register.end(sandbox, reason)
            except DBAPIError as error:
                log.error("the end of sandbox %s cannot be written, and is tried again: %s", sandbox, error.orig)
                break
            del self._unwritten[sandbox]
        return rows

    async def end_all(self, reason: str) -> None:
        """End every sandbox."""
        await asyncio.gather(*(self.end(sandbox, reason) for sandbox in [*self._kept]))

    async def watch(self) -> None:
        """Find out which sandboxes have ended, until cancelled."""
        looks = 0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            looks += 1
            try:
                await self._look()
                if looks % _FORGET_LOOKS == 0:
                    self._register.forget(self._settings.keep)
            except Exception as error:  # the next look may go better
                log.error("sandboxes cannot be looked at: %s: %s", type(error).__name__, error)

    async def _look(self) -> None:
        """Note which sandboxes have ended by themselves, and end those whose key was removed."""
        self._write_ends()
        before = [*self._kept]
        known = self._register.open_of(self._holder)
        for sandbox in before:
            kept = self._kept.get(sandbox)
            if kept is None:
                continue
            if sandbox not in known:
                await self.end(sandbox, "its key was removed")
                continue
            try:
                await kept.check()
            except SandboxClosed as closed:
                await self.end(sandbox, str(closed))
