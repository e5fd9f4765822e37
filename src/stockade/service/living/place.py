"""The sandbox that a request is about."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from stockade.service.errors import Refused
from stockade.service.keys import Key
from stockade.service.living.register import OPEN, OWNER_GONE
from stockade.service.living.requests import Call
from stockade.service.state import State

_GRACE_SECONDS = 60.0


@dataclass(frozen=True)
class Place:
    """A sandbox of the key of a request."""

    row: Row[Any]
    state: State
    key: Key

    def call(self, **what: Any) -> Call:
        """Return a call to the worker about the sandbox. Raises ``Refused`` if it has ended."""
        holder = self.state.calls.holder
        if self.row.state != OPEN:
            raise Refused(410, "SandboxClosed", self.row.reason)
        if holder and self.row.holder != holder:
            raise Refused(410, "SandboxClosed", OWNER_GONE)
        return Call(holder=holder, key=self.key.id, key_name=self.key.name, sandbox=self.row.id, **what)

    @property
    def seconds(self) -> float:
        """How long an answer may take: until the end of the sandbox, and a little longer."""
        return max(0.0, float(self.row.expires) - time.time()) + _GRACE_SECONDS


async def row_of(sandbox: str, state: State, key: Key) -> Row[Any]:
    """Return the row of a sandbox. Raises ``Refused`` if the key has none of this id."""
    row = await state.call(state.sandboxes.find, key.id, sandbox)
    if row is None:
        message = "this key has no sandbox of this id; sandboxes are forgotten some time after their end"
        raise Refused(404, "NotFound", message)
    return row


def lost(state: State, call: Call) -> Refused:
    """Return the refusal of a call whose worker ended before the answer."""
    if call.do == "create" or state.stopping:
        return Refused(503, "NotReady", "the service ended the call before its answer", retry=1)
    return Refused(410, "SandboxClosed", OWNER_GONE)
