"""The meter counts fuel and looks at the other caps. One C iterator does the counting; Python runs once in 1,000 units.

``units`` is a chain over chunks. Each chunk is a ``repeat`` of at most 1,000 units. Between two chunks the chain calls
``Meter.__next__``, which inspects the caps. After a cap was hit, ``__next__`` returns an iterator that raises for ever.
The chain keeps that iterator, so the limit stays without a flag that each loop would have to test.

``__next__`` must not raise: a chain forgets a source that raised, and then says StopIteration. It can happen at the
recursion limit. ``confirm`` notices, and the run ends by the cap on frames.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import deque
from itertools import chain, islice, repeat
from operator import length_hint
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Limits(Protocol):
    """The caps of a runtime."""

    @property
    def fuel(self) -> int | None:
        """Return the cap."""

    @property
    def heap_objects(self) -> int | None:
        """Return the cap."""

    @property
    def frames(self) -> int | None:
        """Return the cap."""

    @property
    def deadline(self) -> float | None:
        """Return the cap."""

    @property
    def symbols(self) -> int | None:
        """Return the cap."""

    @property
    def value_bytes(self) -> int | None:
        """Return the cap."""


SCRIPT = "<script> "
"""Start of the file name in the code of every script."""
UNBOUNDED = 1 << 62
CHUNK = 1000
LARGEST = (
    20_000_000  # units: without a cap on fuel, one operation that costs more is refused, because nothing could stop it
)
SLOW, FAST = 0.004, 0.001  # seconds: a chunk that takes longer is followed by a smaller one


class LimitHit(BaseException):
    """Carry a hit cap up the stack of the script. Scripts cannot name this class, and no handler of theirs keeps it."""


class _Refusal:
    """An iterator that raises for ever."""

    def __iter__(self) -> _Refusal:
        return self

    def __next__(self) -> NoReturn:
        raise LimitHit


class Meter:
    """Counts the work of one runtime. ``tick`` takes one unit, and ``charge`` takes many.

    ``stop`` is what handlers raise at once: nothing during a call, ``LimitHit`` after a cap, and ``GeneratorExit``
    between calls. Python closes a generator when it frees it, at any time and in any thread, and swallows that one.
    """

    def __init__(self, caps: Limits) -> None:
        self.caps = caps
        self.value_cap = UNBOUNDED if caps.value_bytes is None else caps.value_bytes
        self.symbols: set[str] = set()
        self.hit: tuple[str, float] | None = None
        self.stop: type[BaseException] | None = GeneratorExit
        self.line = 0
        self._initial = self._pool = UNBOUNDED if caps.fuel is None else caps.fuel
        self._chunk: Iterator[bool] = repeat(True, 0)
        self._size = CHUNK
        self._until_look = CHUNK if caps.heap_objects is None else min(CHUNK, max(1, caps.heap_objects // 10))
        self._unchecked = 0
        self._ends = self._looked = self._collected = 0.0
        self._blocks = 0
        self._total: int | None = None
        self.units: Iterator[bool] = chain.from_iterable(self)
        self.tick = self.units.__next__

    def start(self, begun: float | None = None) -> None:
        """Begin one call of the runtime: what is on the heap counts from here, and the deadline from ``begun``."""
        self.stop = None if self.hit is None else LimitHit
        now = time.monotonic()
        self._looked = now
        self._ends = (now if begun is None else begun) + (self.caps.deadline or 0.0)
        if self._blocks == 0:
            self._blocks = sys.getallocatedblocks()

    def end(self) -> None:
        """End one call. No handler, ``finally``, ``__exit__`` or host function runs until the next call begins."""
        self.stop = GeneratorExit

    def check(self) -> None:
        """Raise what ends the script now."""
        if self.stop is not None:
            raise self.stop

    def remaining(self) -> float | None:
        """Return the seconds until the deadline, or None without one."""
        return None if self.caps.deadline is None else max(0.0, self._ends - time.monotonic())

    @property
    def spent(self) -> int:
        """Return the units that were used since the runtime was made."""
        if self._total is not None:
            return self._total
        return self._initial - self._pool - length_hint(self._chunk)

    def __iter__(self) -> Meter:
        return self

    def __next__(self) -> Iterator[bool]:
        """Return the next chunk of units, or the iterator that raises for ever."""
        if self.hit is None:
            self._inspect()
            if self.hit is None and self._pool == 0:
                self._record("fuel", self._initial)
        if self.hit is not None:
            return _Refusal()
        size = min(self._size, self._until_look, self._pool)
        self._pool -= size
        self._chunk = repeat(True, size)
        return self._chunk

    def charge(self, units: int) -> None:
        """Take ``units`` at once, and look at the caps as often as for single units."""
        if self.hit is not None:
            raise LimitHit
        if units < 0:
            raise ValueError(f"a price of {units:,} units is refused: it must not be negative")
        if units > LARGEST and self.caps.fuel is None:
            raise MemoryError(f"one operation of {units:,} units is refused")
        if units <= self._pool:
            self._pool -= units
        else:
            short = units - self._pool
            if short > length_hint(self._chunk):
                self._total = self._initial
                self.trip("fuel", self._initial)
            self._pool = 0
            deque(islice(self._chunk, short), maxlen=0)
        self._unchecked += units
        if self._unchecked >= self._until_look:
            self._unchecked = 0
            self._inspect()
            if self.hit is not None:
                raise LimitHit

    def trip(self, cap: str, figure: float) -> NoReturn:
        """Record that ``cap`` was hit, and end the script."""
        self._record(cap, figure)
        raise LimitHit

    def fits(self, size: int) -> None:
        """End the script if a value of ``size`` bytes is over the cap."""
        if size > self.value_cap:
            if self.caps.value_bytes is None:
                raise MemoryError(f"a value of {size:.3g} bytes is refused")
            self.trip("value_bytes", self.value_cap)

    def symbol(self, name: str) -> None:
        """Count a name that the script introduces while it runs."""
        self.symbols.add(name)
        cap = self.caps.symbols
        if cap is not None and len(self.symbols) > cap:
            self.trip("symbols", cap)

    def caught(self) -> None:
        """Begin a handler or a ``finally`` of the script: raise again what the script must not keep."""
        error = sys.exception()
        self.check()
        if isinstance(error, RecursionError) and self.caps.frames is not None:
            self.trip("frames", self.caps.frames)
        if error is not None and not is_of_scripts(error):
            raise error  # an interrupt of the host
        self.confirm()

    def confirm(self) -> None:
        """Take one unit, and end the script if the chain has forgotten its source."""
        self.check()
        if next(self.units, None) is None:
            self.trip("frames", self.caps.frames or sys.getrecursionlimit())

    def forgive(self, blocks: int) -> None:
        """Leave blocks that the host allocated, for a module that it imports, out of the count."""
        self._blocks += max(0, blocks)

    def look(self) -> None:
        """Inspect the caps now: something outside the script took time."""
        self._inspect()
        if self.hit is not None:
            raise LimitHit

    def _record(self, cap: str, figure: float) -> None:
        if self.hit is None:
            self._total = self.spent
            self.hit, self.stop = (cap, figure), LimitHit
            self.line = _line()
            deque(self._chunk, maxlen=0)

    def _inspect(self) -> None:
        now = time.monotonic()
        taken, self._looked = now - self._looked, now
        if taken > SLOW:
            self._size = max(1, int(self._size * SLOW / taken))
        elif taken < FAST:
            self._size = min(CHUNK, self._size * 2)
        if self.caps.deadline is not None and now >= self._ends:
            self._record("deadline", self.caps.deadline)
        heap = self.caps.heap_objects
        if heap is not None:
            self._weigh_heap(heap, now)

    def _weigh_heap(self, heap: int, now: float) -> None:
        """Look at the blocks on the heap, and look again the sooner, the nearer they are to the cap.

        One unit makes about ten blocks at most, so what is left is used up at the earliest after a tenth as many units.
        """
        held = self._held()
        if held > heap:
            gc.collect(1)
            held = self._held()
        if held > heap and now - self._collected > 0.2:
            gc.collect()
            self._collected = now
            held = self._held()
        if held > heap:
            self._record("heap_objects", heap)
        self._until_look = min(CHUNK, max(1, heap // 100, (heap - held) // 10))

    def _held(self) -> int:
        return sys.getallocatedblocks() - self._blocks


def is_of_scripts(error: BaseException) -> bool:
    """Return whether a script may have raised ``error``: other exceptions interrupt the host."""
    return isinstance(error, Exception | GeneratorExit) or type(error) is BaseException


def is_script_function(value: Any) -> bool:
    """Return whether ``value`` is a function that a script defined."""
    return type(value) is FunctionType and value.__code__.co_filename.startswith(SCRIPT)


def _line() -> int:
    """Return the line of the script that runs now, or 0."""
    frame: Any = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(SCRIPT):
        frame = frame.f_back
    return frame.f_lineno if frame is not None else 0
