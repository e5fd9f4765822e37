"""``AsyncSandboxPool``: ``SandboxPool`` for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar

from stockade.api.asynchronous.sandbox import AsyncSandbox
from stockade.api.asynchronous.threads import forwarded, in_thread, like
from stockade.api.sandbox import Sandbox
from stockade.api.sandbox_pool import SandboxPool

T = TypeVar("T")


class AsyncSandboxPool:
    """``SandboxPool`` for asyncio: its sandboxes are ``AsyncSandbox``. ``create`` is the blocking ``Sandbox.create``.

    Threads in the background call ``create``, so that the event loop goes on meanwhile.
    """

    def __init__(
        self,
        create: Callable[[], Sandbox],
        *,
        size: int = 1,
        language: str | None = "python",
        preload: Sequence[str] = (),
    ) -> None:
        self._inner = SandboxPool(create, size=size, language=language, preload=preload)

    def __repr__(self) -> str:
        """Return what the blocking pool shows, in one line."""
        return f"<Async{repr(self._inner)[1:]}"

    async def __aenter__(self) -> AsyncSandboxPool:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pool."""
        await self.close()

    async def _call(self, call: Callable[[], T]) -> T:
        return await in_thread(call)

    @property
    def waiting(self) -> int:
        """The number of sandboxes that wait now."""
        return self._inner.waiting

    @like(SandboxPool.take)
    async def take(self) -> AsyncSandbox:
        """See ``SandboxPool.take``."""
        return AsyncSandbox(await in_thread(self._inner.take, undo=Sandbox.close))

    fill = forwarded(SandboxPool.fill)
    close = forwarded(SandboxPool.close)
