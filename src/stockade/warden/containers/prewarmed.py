"""Containers that wait for a job, so that the next run of a kind need not wait for the engine.

Each serves one run, whose order for a container is the same to the byte: the same image by digest, the same limits and
mounts. It has nothing of any job until then. There are few, and none waits for long.
"""

from __future__ import annotations

import time

from stockade.warden import loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.core.launch import ContainerOrder
    from stockade.warden.containers.handle import ContainerHandle

_DELAY_SECONDS = 0.1
"""A caller who ends right after a run needs no further container."""
_START_SECONDS = 60.0


class PrewarmedContainers:
    """The containers of one warden that no run has yet."""

    def __init__(
        self, events: loop.Loop, make: Callable[[ContainerOrder], ContainerHandle], has_slack: Callable[[], bool]
    ) -> None:
        """``make`` requests a container, and may raise ``OSError``."""
        self._loop, self._make, self._has_slack = events, make, has_slack
        self._waiting: list[Prewarmed] = []
        self._wanted: list[tuple[float, ContainerOrder]] = []

    def take(self, order: ContainerOrder) -> ContainerHandle | None:
        """Return a container for a job with this order, one that is ready if possible, or ``None``."""
        if not order.prewarm:
            return None
        wanted = order.without_job()
        for each in sorted(self._waiting, key=lambda each: not each.handle.is_ready):
            if each.handle.is_dead:
                self.drop(each)
            elif each.handle.order == wanted:
                self._waiting.remove(each)
                return each.handle
        return None

    def want(self, order: ContainerOrder) -> None:
        """Have a container ready for the next job with this order: a run has just had the last one."""
        if order.prewarm:
            self._wanted.append((time.monotonic() + _DELAY_SECONDS, order))

    def tick(self, now: float) -> float:
        """Make what is wanted, and drop what nobody has taken for long. Return when to call again."""
        due = [order for at, order in self._wanted if at <= now]
        self._wanted = [(at, order) for at, order in self._wanted if at > now]
        for order in due:
            self._add(order)
        for each in [each for each in self._waiting if each.until <= now]:
            self.drop(each)
        return min([*(at for at, _ in self._wanted), *(each.until for each in self._waiting)], default=float("inf"))

    def _add(self, order: ContainerOrder) -> None:
        """Request one container, in the place of the oldest one if there are as many as may be."""
        while self._waiting and len(self._waiting) >= order.prewarm:
            if all(each.handle.order == order for each in self._waiting):
                return
            self.drop(next(each for each in self._waiting if each.handle.order != order))
        if not self._has_slack():
            return
        try:
            handle = self._make(order)
        except OSError:
            return  # a run that needs a container will report the reason
        added = Prewarmed(self, handle, time.monotonic() + _START_SECONDS)
        self._waiting.append(added)
        handle.attach(loop.Guarded(self._loop, lambda _: self.drop(added)), added)
        handle.request()

    def shed(self) -> bool:
        """Drop all of them. Return whether there was any."""
        waiting = [*self._waiting]
        for each in waiting:
            self.drop(each)
        self._wanted.clear()
        return bool(waiting)

    def drop(self, each: Prewarmed) -> None:
        """End a container that no run has had."""
        if each in self._waiting:
            self._waiting.remove(each)
            each.handle.release()


class Prewarmed:
    """A container that waits. Every event but the one that it is ready makes it useless."""

    def __init__(self, pool: PrewarmedContainers, handle: ContainerHandle, until: float) -> None:
        """``until`` is when to give it up, unless it is ready before."""
        self._pool, self.handle, self.until = pool, handle, until

    def on_ready(self) -> None:
        """Wait for a job, but not for ever."""
        self.until = time.monotonic() + self.handle.order.idle_seconds

    def on_report(self, word: str, rest: str) -> None:  # noqa: ARG002
        """Drop the container: nothing can be reported before there is a job."""
        self._pool.drop(self)

    def on_trouble(self, message: str) -> None:  # noqa: ARG002
        """Drop the container. A run that needs one will report the reason."""
        self._pool.drop(self)

    def on_inspected(self, *, ran_out: bool) -> None:
        """Learn nothing: nobody asks."""

    def on_death(self) -> None:
        """Drop the container."""
        self._pool.drop(self)

    def on_removed(self) -> None:
        """Drop the container."""
        self._pool.drop(self)
