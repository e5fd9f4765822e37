"""How many runs of this process go on at a time: each takes descriptors here, and in the warden while it waits there.
The others wait for one to end, in their order.
"""

from __future__ import annotations

import os
import resource
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import suppress

from stockade.core.errors import SetupError

_LEAST = 4
"""So many runs go on whatever the limits are."""
_SHARE = 8
"""The part of the hard limit that the warden's sockets of waiting runs may take; runs themselves need the rest."""
_PER_RUN = 4
"""Descriptors of this process that a run takes while its socket is made."""
AGAIN_SECONDS = 1.0
"""A look for descriptors that others have closed is taken so often."""


class RunSlot:
    """Room for one run, until it leaves."""

    def __init__(self, slots: RunSlots, holder: Hashable) -> None:
        self._slots = slots
        self._holder: Hashable | None = holder

    def leave(self) -> None:
        """Give it to the next that waits."""
        holder, self._holder = self._holder, None
        if holder is not None:
            self._slots.leave(holder)


class RunSlots:
    """Counts the runs that go on, and has the others wait. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._held: Counter[Hashable] = Counter()
        self._waiting: deque[Callable[[], object]] = deque()

    def enter(self) -> RunSlot:
        """Return a place, as soon as there is one. The thread has it."""
        holder = threading.get_ident()
        place = self.attempt(holder)
        if place is None:
            called = threading.Event()
            self.queue(called.set)
            try:
                while place is None:
                    if called.wait(AGAIN_SECONDS):
                        called.clear()
                        place = self.attempt(holder)
                        if place is None:
                            self.queue(called.set, first=True)
                    else:
                        place = self.attempt(holder)
            finally:
                self.leave_queue(called.set, has_place=place is not None)
        return place

    def enter_at_once(self) -> RunSlot:
        """Return a place for a run that takes no descriptor which is not open already."""
        holder = threading.get_ident()
        with self._lock:
            self._held[holder] += 1
        return RunSlot(self, holder)

    def leave(self, holder: Hashable) -> None:
        """Take a place back."""
        if self._owner != os.getpid():
            return  # it is the parent's, and a thread of the parent's may have held the lock
        with self._lock:
            self._held[holder] -= 1
            if not self._held[holder]:
                del self._held[holder]
        self._call_next()

    def attempt(self, holder: Hashable) -> RunSlot | None:
        """Return a place if there is one. Raises ``SetupError`` where all that there are is held by who asks."""
        with self._lock:
            held = self._held.total()
            short = held and _shortage(held)
            if short and self._held[holder] == held:
                raise SetupError(
                    f"ask the warden for a run: {short}, and the {held} runs that go on were begun by the one that "
                    f"asks for another, which would wait for itself; end one of them, or raise the limit on open files "
                    f"(ulimit -n)"
                )
            if short:
                return None
            self._held[holder] += 1
        return RunSlot(self, holder)

    def queue(self, call: Callable[[], object], *, first: bool = False) -> None:
        """Have ``call`` called, from any thread, when it is its turn; ``first`` if it was, and another was faster."""
        with self._lock:
            if first:
                self._waiting.appendleft(call)
            else:
                self._waiting.append(call)

    def leave_queue(self, call: Callable[[], object], *, has_place: bool) -> None:
        """Wait no more. Whoever was called and has no place hands the call on."""
        with self._lock:
            waits = call in self._waiting
            if waits:
                self._waiting.remove(call)
        if not (waits or has_place):
            self._call_next()

    def _call_next(self) -> None:
        with self._lock:
            call = self._waiting.popleft() if self._waiting else None
        if call is not None:
            with suppress(RuntimeError):  # its event loop is closed
                call()


def _shortage(held: int) -> str:
    """Return what is too little for another run beside the ``held`` ones, an empty text if nothing is."""
    soft, hard = (
        1 << 20 if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    most = max(_LEAST, hard // _SHARE)
    if held >= most:
        return f"under a limit of {hard} open files {most} runs go on at a time"
    if held * 32 < soft:
        return ""  # far from it, whatever else is open
    unused = max(8, min(64, soft // 4))
    opened = os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))  # noqa: PTH116, PTH208 - on a hot path
    return f"{opened} of {soft} descriptors are open" if opened + _PER_RUN + unused > soft else ""


slots = RunSlots()


def _forget_in_child() -> None:
    global slots
    slots = RunSlots()


os.register_at_fork(after_in_child=_forget_in_child)
