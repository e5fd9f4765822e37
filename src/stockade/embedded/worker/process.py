"""A worker: a living sandbox with the agent in it. The kernel holds there what the weave might miss."""

from __future__ import annotations

import importlib.util
import json
import os
import warnings
from typing import TYPE_CHECKING, Any

from stockade.api.sandbox import Sandbox
from stockade.api.sessions import agents
from stockade.api.sessions.link import Link
from stockade.api.sessions.opening import python_for_agents
from stockade.core.errors import SetupError
from stockade.embedded.worker import messages
from stockade.embedded.worker.codec import MOST_BYTES, decode
from stockade.embedded.worker.modules import modules_message

if TYPE_CHECKING:
    from stockade.api.process import Process

MEMORY = "256MiB"
_LIMITS = {
    "cpu_time": "unlimited",
    "wall_time": "unlimited",
    "processes": 4,
    "open_files": 32,
    "file_size": "1MiB",
    "disk": "1MiB",
}
"""The worker needs no more. Time is the runtime's deadline, which the caller holds."""
_START_SECONDS = 30.0
_SEND_SECONDS = 30.0
_YEAR = 365 * 24 * 3600.0
_AGENT = "metered_agent.py"


def sandbox_for_worker(memory: int | str | None) -> Sandbox:
    """Start the sandbox of a worker."""
    policy = {"limits": {**_LIMITS, "memory": MEMORY if memory is None else memory}}
    return Sandbox.create(policy, idle_timeout=None, max_lifetime=_YEAR)


class Worker:
    """A started worker without a runtime. ``begin`` gives it one."""

    _owner = 0
    """The process whose runtime has this worker."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        try:
            process: Process = self._sandbox.start_command(agents.command(python_for_agents(None)), stderr=os.devnull)
            self._link = Link(process, _AGENT, longest=MOST_BYTES)
            hello = json.loads(self._expect(messages.HELLO))
            is_same = hello.get("magic") == importlib.util.MAGIC_NUMBER.hex()
            self._link.send(messages.MODULES, modules_message(compiled=is_same))
            self._expect(messages.LOADED)
        except (OSError, EOFError, ValueError, AttributeError) as error:
            self.close()
            raise SetupError(f"the worker for scripts does not start: {error or 'no answer in time'}") from error
        except BaseException:
            self.close()
            raise

    def begin(self, settings: bytes) -> None:
        """Make the runtime. Raises ``SetupError`` if this worker cannot."""
        try:
            self._link.send(messages.START, settings)
            self._expect(messages.READY)
            self._owner = os.getpid()
        except (OSError, EOFError, ValueError) as error:
            self.close()
            raise SetupError(f"the worker for scripts does not start: {error or 'no answer in time'}") from error

    def __del__(self) -> None:
        """End the worker of a runtime that was dropped without ``close``, and warn as Python does of a file."""
        if self._owner == os.getpid() and not self.is_closed:
            self.close()
            warnings.warn("a Runtime was dropped without close(); its worker was ended", ResourceWarning, 2, self)

    def _expect(self, wanted: bytes) -> bytes:
        kind, payload = self.receive(_START_SECONDS)
        if kind == messages.BROKEN:
            raise ValueError(broken(payload))
        if kind != wanted:
            raise ValueError("it sent another message than the one of its start")
        return payload

    def send(self, kind: bytes, payload: bytes, seconds: float) -> None:
        """Send a message. Raises ``EOFError`` if the worker is gone, and ``TimeoutError`` if it reads nothing."""
        self._link.send(kind, payload, seconds=min(seconds, _SEND_SECONDS))

    def receive(self, seconds: float) -> tuple[bytes, bytes]:
        """Return the next message. Raises as ``Link.receive`` does; ``TimeoutError`` after ``seconds``."""
        return self._link.receive(self._link.clock() + seconds)

    @property
    def is_closed(self) -> bool:
        """Whether the sandbox was closed."""
        return self._sandbox.closed

    def close(self) -> None:
        """End the sandbox with everything in it."""
        self._sandbox.close()


def broken(payload: bytes) -> str:
    """Return what a worker says about its own failure, as one line of text."""
    text: Any = decode(payload)
    return str(text).replace("\n", " ")[:500] if isinstance(text, str) else "it failed"
