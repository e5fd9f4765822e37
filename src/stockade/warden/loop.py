"""A single-threaded event loop over descriptors, with one callback each."""

from __future__ import annotations

import select

from stockade.linux import faults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import partial
else:
    from _functools import partial

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
HUNG_UP = select.EPOLLHUP
SHUT = select.EPOLLRDHUP


class Guarded:
    """The loop as one run sees it: an exception in a callback fails that run, and no other."""

    def __init__(self, events: Loop, failed: Callable[[str], object]) -> None:
        self._loop = events
        self._failed = failed

    def watch(self, fd: int, events: int, callback: Callable[[int], object]) -> None:
        """See ``Loop.watch``."""
        self._loop.watch(fd, events, partial(self._call, callback))

    def forget(self, fd: int) -> None:
        """See ``Loop.forget``."""
        self._loop.forget(fd)

    def _call(self, callback: Callable[[int], object], events: int) -> None:
        try:
            callback(events)
        except Exception as error:  # any error here concerns this run alone
            self._failed(faults.explain("go on with the run", error))


class Loop:
    """epoll(7) with callbacks, which get the events of their descriptor."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], object]] = {}

    def watch(self, fd: int, events: int, callback: Callable[[int], object]) -> None:
        """Call ``callback`` on any of ``events`` of ``fd``, instead of an earlier callback."""
        if fd not in self._callbacks or not self._modify(fd, events):
            self._epoll.register(fd, events)
        self._callbacks[fd] = callback

    def _modify(self, fd: int, events: int) -> bool:
        """Change the events of ``fd``. Return ``False`` if the kernel does not watch it: somebody closed a descriptor
        without ``forget``, and a new one has its number."""
        try:
            self._epoll.modify(fd, events)
        except FileNotFoundError:
            return False
        return True

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``; call it before closing the descriptor."""
        if self._callbacks.pop(fd, None) is not None:
            try:
                self._epoll.unregister(fd)
            except OSError:
                pass  # the descriptor is closed, so the kernel watches it no more

    def turn(self, seconds: float | None) -> None:
        """Wait at most ``seconds`` for events, and run the callback of each."""
        batch = self._epoll.poll(-1 if seconds is None else max(0.0, seconds))
        meant = [self._callbacks.get(fd) for fd, _ in batch]
        for (fd, events), callback in zip(batch, meant, strict=True):
            # An earlier callback of this turn may have closed the descriptor, and a new one may have its number by now.
            # Skipping the new one loses nothing: epoll reports readable data again.
            if callback is not None and self._callbacks.get(fd) is callback:
                callback(events)
