"""A single-threaded loop over descriptors: each has one callback."""

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
    """A loop whose callbacks may fail for one run without harm to the others: what went wrong is told to it."""

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
        except Exception as error:  # whatever it is, it is this owner's fault and nobody else's
            self._failed(faults.explain("go on with the run", error))


class Loop:
    """epoll(7) with callbacks that take the events that came."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], object]] = {}

    def watch(self, fd: int, events: int, callback: Callable[[int], object]) -> None:
        """Call ``callback`` when any of ``events`` comes on ``fd``; replaces what was watched there."""
        if fd not in self._callbacks or not self._modify(fd, events):
            self._epoll.register(fd, events)
        self._callbacks[fd] = callback

    def _modify(self, fd: int, events: int) -> bool:
        """Return whether the kernel still knows ``fd``: the number of a descriptor that was closed without ``forget``
        may be another one's by now, and the kernel has never heard of that one."""
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
                pass  # the descriptor is closed, so the kernel has forgotten it

    def turn(self, seconds: float | None) -> None:
        """Wait at most ``seconds`` for events and call back for each."""
        batch = self._epoll.poll(-1 if seconds is None else max(0.0, seconds))
        meant = [self._callbacks.get(fd) for fd, _ in batch]
        for (fd, events), callback in zip(batch, meant, strict=True):
            # An earlier callback of this turn may have closed the descriptor, and its number may be another's by now.
            # Who is new on it loses nothing: what can be read then comes again.
            if callback is not None and self._callbacks.get(fd) is callback:
                callback(events)
