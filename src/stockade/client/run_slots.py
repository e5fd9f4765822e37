"""A bound on the runs of this process at one time. A run takes descriptors here, and in the warden while it waits.
The other runs wait in order until one ends.
"""

from __future__ import annotations

import os
import resource
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue

from stockade.core import log
from stockade.core.errors import SetupError

_LEAST = 4
"""At least so many runs proceed, whatever the limits are."""
_SHARE = 8
"""The divisor of the hard limit for the warden's sockets of waiting runs; the runs themselves need the rest."""
_PER_RUN = 4
"""Descriptors of this process that a run takes while its socket is made."""
AGAIN_SECONDS = 1.0
"""The interval at which a waiting run checks whether others have closed descriptors."""


class RunSlot:
    """The permission for one run, until ``leave``."""

    def __init__(self, slots: RunSlots, holder: Hashable) -> None:
        self._slots = slots
        self._holder: Hashable | None = holder

    def leave(self) -> None:
        """Release the slot to the next waiting run."""
        holder, self._holder = self._holder, None
        if holder is not None:
            self._slots.leave(holder)


class RunSlots:
    """Counts the runs of this process, and queues the others. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._held: Counter[Hashable] = Counter()
        self._waiting: deque[Callable[[], object]] = deque()
        self._left: deque[Hashable] = deque()
        """Holders of released slots that are not counted yet."""

    def enter(self) -> RunSlot:
        """Wait for a slot and return it. The calling thread holds it."""
        holder = threading.get_ident()
        slot = self.attempt(holder)
        if slot is None:
            calls: SimpleQueue[None] = SimpleQueue()  # its put, unlike the set of an event, is safe in a finalizer
            call = partial(calls.put, None)
            self.queue(call)
            try:
                while slot is None:
                    called = _wait(calls)
                    slot = self.attempt(holder)
                    if called and slot is None:
                        self.queue(call, first=True)
            finally:
                self.leave_queue(call, has_slot=slot is not None)
        return slot

    def enter_at_once(self) -> RunSlot:
        """Return a slot for a run that opens no new descriptor."""
        holder = threading.get_ident()
        with self._locked():
            self._held[holder] += 1
        return RunSlot(self, holder)

    def leave(self, holder: Hashable) -> None:
        """Take back a slot of ``holder``. Safe in a finalizer, which may run while its own thread holds the lock."""
        if self._owner != os.getpid():
            return  # the slot belongs to the parent process, of which a thread may have held the lock
        self._left.append(holder)
        self._take_back()

    def _take_back(self) -> None:
        """Count the released slots, and call one waiter for each. Whoever holds the lock does it at its release."""
        while self._left and self._lock.acquire(blocking=False):
            calls = []
            try:
                while self._left:
                    holder = self._left.popleft()
                    self._held[holder] -= 1
                    if not self._held[holder]:
                        del self._held[holder]
                    if self._waiting:
                        calls.append(self._waiting.popleft())
            finally:
                self._lock.release()
            for call in calls:
                _call(call)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        finally:
            self._take_back()

    def attempt(self, holder: Hashable) -> RunSlot | None:
        """Return a slot if there is one. Raises ``SetupError`` if ``holder`` already holds all of them."""
        with self._locked():
            held = self._held.total()
            short = held and _shortage(held)
            if short and self._held[holder] == held:
                raise SetupError(
                    f"ask the warden for a run: {short}, and the thread or task that asks began all {held} runs "
                    f"that go on, so it would wait for itself; end one of them, or raise the limit on open files "
                    f"(ulimit -n)"
                )
            if short:
                log.info("a run waits: %s", short)
                return None
            self._held[holder] += 1
        return RunSlot(self, holder)

    def queue(self, call: Callable[[], object], *, first: bool = False) -> None:
        """Queue ``call``, which any thread may call at its turn. ``first`` queues it again at the front."""
        with self._locked():
            if first:
                self._waiting.appendleft(call)
            else:
                self._waiting.append(call)

    def leave_queue(self, call: Callable[[], object], *, has_slot: bool) -> None:
        """Leave the queue. If ``call`` was called without success, the next one in the queue is called."""
        with self._locked():
            waits = call in self._waiting
            if waits:
                self._waiting.remove(call)
        if not (waits or has_slot):
            self._call_next()

    def _call_next(self) -> None:
        with self._locked():
            call = self._waiting.popleft() if self._waiting else None
        if call is not None:
            _call(call)


def _wait(calls: SimpleQueue[None]) -> bool:
    """Return whether a call came within ``AGAIN_SECONDS``."""
    try:
        calls.get(timeout=AGAIN_SECONDS)
    except Empty:
        return False
    return True


def _call(call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the event loop of the waiter is closed
        call()


def _shortage(held: int) -> str:
    """Return what is too scarce for another run beside ``held`` ones; an empty text if nothing is."""
    soft, hard = (
        1 << 20 if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    most = max(_LEAST, hard // _SHARE)
    if held >= most:
        return f"under a limit of {hard} open files {most} runs go on at a time"
    if held * 32 < soft:
        return ""  # far below the limit, whatever else is open
    unused = max(8, min(64, soft // 4))
    opened = os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))  # noqa: PTH116, PTH208 - on a hot path
    return f"{opened} of {soft} descriptors are open" if opened + _PER_RUN + unused > soft else ""


slots = RunSlots()


def _forget_in_child() -> None:
    global slots
    slots = RunSlots()


os.register_at_fork(after_in_child=_forget_in_child)
