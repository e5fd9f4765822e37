"""Processes of a living sandbox that go on between the calls of an agent, with what they have written meanwhile."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from stockade.api.asynchronous.process import AsyncProcess, AsyncProcessOutput
from stockade.core.text import joined, whole_end
from stockade.integrations.living import remark, status_of
from stockade.runs.result import Result

PIECE = 1 << 16
MOST_WAITING = 1 << 20
"""Bytes of output that wait for the agent. Of more, the start and the end are kept."""


class RunningProcess:
    """A process whose output is read as it comes, so that it never waits for the agent."""

    def __init__(self, process: AsyncProcess[Any], *, terminal: bool = False) -> None:
        self.process, self.terminal = process, terminal
        self.last_used = time.monotonic()
        self.result: Result | None = None
        self._waiting = bytearray()
        self._omitted = 0
        self._task = asyncio.create_task(self._follow())

    @property
    def ended(self) -> bool:
        """Whether the process has ended, and all of its output is here."""
        return self._task.done()

    @property
    def exit_code(self) -> int | None:
        """The exit status as a shell reports it; ``None`` before the end."""
        return None if self.result is None else status_of(self.result)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for the end, ``seconds`` at most. Raises what broke the connection to the process."""
        await asyncio.wait([self._task], timeout=seconds)
        if self._task.done():
            self._task.result()

    async def end(self) -> None:
        """End the process with everything that it started."""
        await self.process.kill()
        with suppress(Exception):  # the process is dead, and nobody asks for its output any more
            await self._task

    def take(self) -> str:
        """Return what the process has written since the last call, and after its end why the sandbox ended it."""
        data, omitted = bytes(self._waiting), self._omitted
        self._waiting.clear()
        self._omitted = 0
        if omitted:
            text = joined(data[: MOST_WAITING // 2], data[MOST_WAITING // 2 :], omitted)
        else:
            end = len(data) if self.ended else whole_end(data)
            self._waiting += data[end:]
            text = data[:end].decode("utf-8", "replace")
        if self.result is None:
            return text
        failed = "" if text or self.result.error is None else self.result.error.message
        return "\n".join(filter(None, (text, failed, remark(self.result))))

    async def _follow(self) -> None:
        await asyncio.gather(self._read(self.process.stdout), self._read(self.process.stderr))
        self.result = await self.process.wait()

    async def _read(self, stream: AsyncProcessOutput) -> None:
        while data := await stream.read(PIECE):
            self._waiting += data
            over = len(self._waiting) - MOST_WAITING
            if over > 0:
                del self._waiting[MOST_WAITING // 2 : MOST_WAITING // 2 + over]
                self._omitted += over
