"""The part of a living sandbox that starts execs in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stockade.api import configured
from stockade.api.exec_limits import ExecLimits
from stockade.api.observation import UNOBSERVED, observation
from stockade.backends.shared import living
from stockade.client import run_slots, warden_process
from stockade.client.exchange import Exchange, introduction
from stockade.client.send_queue import SendQueue
from stockade.core import strict_json
from stockade.core.errors import JobError, SandboxClosed
from stockade.runs.result import Outcome, Result
from stockade.warden.protocol import PAUSED, SANDBOX_ENDED

if TYPE_CHECKING:
    from stockade.api.launcher import Opened
    from stockade.backends.base import Backend
    from stockade.client.connection import Connection
    from stockade.client.run_slots import RunSlot
    from stockade.core.launch import Launch
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.hooks import Hooks
    from stockade.runs.job import Job


class Execs:
    """The parts of ``Sandbox`` that every exec needs: its connection, its launch, and the meaning of its end."""

    id: str
    policy: Policy
    backend: Backend
    _made: Launch
    _connection: Connection
    _limits: ExecLimits
    _owner: int
    _result: Result | None
    _hooks: Hooks | None
    _labels: Mapping[str, str]
    _paused = False

    def __repr__(self) -> str:
        """Return the id, the state, the backend, and the start of the policy's digest in an audit log, in one line."""
        digest = strict_json.digest(self.policy.model_dump(mode="json"))[:12]
        state = "closed" if self._result is not None else "paused" if getattr(self, "paused", False) else "open"
        return f"<{type(self).__name__} {self.id}: {state}; {self.backend.name}; policy {digest}>"

    @contextmanager
    def _exec(
        self,
        job: Job,
        plan: Plan,
        folder: str,
        *,
        slot: RunSlot | None = None,
        broker: int = -1,
        interactive: bool = False,
        **how: Any,
    ) -> Iterator[Opened]:
        """Start a command, and yield its exchange and connection. Leaving ends it.

        ``broker`` is a descriptor for what the warden hands to the exec's process, or -1.
        """
        observed = UNOBSERVED  # a connection to a port runs nothing
        if "port" not in how:
            observed = observation(self._hooks, plan, "command", job, self._labels, sandbox=self.id)
        with self._connect(slot, broker, serves=how.get("serves", False)) as connection, observed:
            detached = how.setdefault("detached", False)
            how["folder"] = self._inside(folder)
            launch = living.an_exec(self._made, self.id, job.argv, job.environment, **how)
            own = {"watch": self._limits.watch(launch.watch, plan), "labels": configured.as_texts(self._labels)}
            launch = launch.adding(**own)
            silent = job.stdin is None and not interactive
            message, connection.remembered = introduction(launch, {}, silent=silent, live=detached)
            keep = 0 if detached else None
            exchange = Exchange(launch, plan, outgoing=message, silent=silent, interactive=interactive, keep=keep)
            yield SendQueue(exchange, connection.sock, observed.note), connection

    def _connect(self, slot: RunSlot | None, broker: int = -1, *, serves: bool = False) -> Connection:
        slot = slot or run_slots.slots.enter()
        try:
            self._check_open()
            if self._paused and not serves:
                raise JobError(PAUSED)
            connection = self._connection.warden.connect(broker)
        except BaseException as error:
            slot.leave()
            if isinstance(error, warden_process.WardenGoneError):
                raise SandboxClosed(f"the sandbox has ended: {error}") from error
            raise
        connection.slot = slot
        return connection

    def _inside(self, folder: str) -> str:
        return os.path.normpath(os.path.join(living.first_folder(self._made), folder))  # noqa: PTH118 - a guest's path

    def _concluded(self, send_queue: SendQueue) -> Result:
        result = send_queue.exchange.result
        assert result is not None
        if result.outcome is Outcome.SANDBOX_FAILED and result.error is not None:
            message = result.error.message
            if message.startswith(SANDBOX_ENDED):
                raise SandboxClosed(message)
            if message == PAUSED:
                raise JobError(message)
        return result

    def _check_open(self) -> None:
        if self._owner != os.getpid():
            raise JobError(f"the sandbox is process {self._owner}'s: a process forked from that one cannot use it")
        if self._result is not None:
            raise SandboxClosed("the sandbox was closed")
