"""Drive an asynchronous iterator on a thread of its own, and read it as an ordinary iterator."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Generic, TypeVar

_T = TypeVar("_T")
_MAX_WAITING = 256  # items that may wait for the reader


def from_thread(begin: Callable[[], AsyncGenerator[_T, None]]) -> Iterator[_T]:
    """Yield the items of ``begin()``. Closing the iterator closes the asynchronous one and waits until it has ended."""
    worker = _Worker(begin)
    try:
        while (item := worker.passed.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            worker.release()
            yield item[0]
    finally:
        worker.end()


class _Worker(Generic[_T]):
    def __init__(self, begin: Callable[[], AsyncGenerator[_T, None]]) -> None:
        self.passed: queue.SimpleQueue[tuple[_T] | BaseException | None] = queue.SimpleQueue()
        self._begin = begin
        self._loop = asyncio.new_event_loop()
        self._free_slots = asyncio.Semaphore(_MAX_WAITING)
        self._main = self._loop.create_task(self._work())
        self._thread = threading.Thread(target=self._run, name="stockade-evaluate", daemon=True)
        self._thread.start()

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._free_slots.release)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join()
        self._loop.close()

    async def _work(self) -> None:
        async with aclosing(self._begin()) as items:
            async for item in items:
                await self._free_slots.acquire()
                self.passed.put((item,))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        last: BaseException | None = None
        try:
            self._loop.run_until_complete(self._main)
        except BaseException as error:  # the reader's thread raises this error
            last = error
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self.passed.put(last)
