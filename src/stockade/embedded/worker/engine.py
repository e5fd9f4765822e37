"""The caller's side of a worker, with the interface of ``stockade.embedded.engine.Engine``."""

from __future__ import annotations

import math
import os
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.crossing import CannotCross, Crossing
from stockade.embedded.endings import Exhausted, Failed, Uncrossable
from stockade.embedded.errors import RuntimeDead, WorkerCrashed, text_for_scripts
from stockade.embedded.sink import Sink
from stockade.embedded.weave.names import check_host_name
from stockade.embedded.worker import messages
from stockade.embedded.worker.codec import CodecError, decode, encode
from stockade.embedded.worker.process import broken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stockade.embedded.caps import Caps
    from stockade.embedded.worker.process import Worker

GRACE = 0.02
"""Seconds past the deadline in which the worker can say so by itself, with the line. Then the caller kills it."""
MOST_FAILURES = 100
MOST_CROSSING = 64 * 1024 * 1024
MOST_TEXT = 2000
_LARGEST = 1 << 63
_LONGEST = 365 * 24 * 3600.0


class WorkerEngine:
    """The state of one runtime in a worker. The worker starts with the first call."""

    def __init__(self, caps: Caps, *, clock: float, seed: int, most_output: int, start: Callable[[], Worker]) -> None:
        self.caps, self.sink = caps, Sink(most_output)
        self._settings = encode((asdict(caps), clock, seed, most_output))
        self._start = start
        self.fuel = self.symbol_count = 0
        self.lost = ""
        """Why the worker is gone, if it is."""
        self._functions: dict[str, Callable[..., Any]] = {}
        self._untold: list[str] = []
        self._failures: OrderedDict[int, BaseException] = OrderedDict()
        self._failed = self._called_times = 0
        self._worker: Worker | None = None
        self._owner = os.getpid()
        self._ends = math.inf

    def register(self, name: str, call: Callable[..., Any]) -> None:
        """Make ``call`` a built-in function of the scripts. It runs here, with copies of data."""
        check_host_name(name, "a host function")
        self._functions[name] = call
        self._untold.append(name)

    def remaining(self) -> float | None:
        """Return the seconds until the deadline, or None without one."""
        return None if self.caps.deadline is None else self._left()

    def run(self, source: str, filename: str) -> Any:
        """Run ``source`` and return the value of its last expression, or None."""
        return self._ask(messages.RUN, source, filename)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the script and return its value."""
        return self._ask(messages.CALL, name, self._data(list(args)), self._data(kwargs))

    def get(self, name: str) -> Any:
        """Return the value of a global name of the scripts."""
        return self._ask(messages.GET, name)

    def set(self, name: str, value: Any) -> None:
        """Bind a global name of the scripts to a copy of ``value``."""
        check_host_name(name, "a value")
        self._ask(messages.SET, name, self._data(value))

    def close(self) -> None:
        """End the worker. A process forked from the owner leaves it alone."""
        self._lose("the caller closed it")

    def _data(self, value: Any) -> Any:
        """Return ``value`` made of the types that the codec knows."""
        try:
            return Crossing(lambda _: None, self._most(), lambda number: number).copy(value)
        except CannotCross as error:
            raise Uncrossable(str(error)) from None

    def _most(self) -> int:
        return min(MOST_CROSSING, self.caps.value_bytes or MOST_CROSSING)

    def _ask(self, kind: bytes, *fields: Any) -> Any:
        try:
            request = encode((self._untold, fields))
        except CodecError as error:
            raise Uncrossable(str(error)) from None
        worker = self._started()
        with self._watched():
            begun = time.monotonic()
            self._ends = begun + (self.caps.deadline or _LONGEST)
            worker.send(kind, request, self._left() + GRACE)
            self._untold = []
            kind, payload = worker.receive(self._left() + GRACE)
            while kind == messages.HOST_CALL:
                if not self._left():
                    raise TimeoutError
                worker.send(*self._called(decode(payload)), self._left() + GRACE)
                kind, payload = worker.receive(self._left() + GRACE)
            if kind == messages.BROKEN:
                self._crash(broken(payload))
            return self._concluded(kind, self._reported(payload))

    def _left(self) -> float:
        return max(0.0, self._ends - time.monotonic())

    def _started(self) -> Worker:
        if os.getpid() != self._owner:
            raise RuntimeDead(
                f"its worker belongs to process {self._owner}, from which this one was forked; use fresh()"
            )
        if self._worker is None:
            worker = self._start()
            worker.begin(self._settings)
            self._worker = worker
            if self.lost:  # closed meanwhile
                self._crash(self.lost)
        return self._worker

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Kill the worker if the exchange of messages ends in any other way than by its last one."""
        try:
            yield
        except (Exhausted, Failed, Uncrossable):
            raise
        except TimeoutError:
            self._lose("it did not end at its deadline")
            if self.caps.deadline is None:
                raise WorkerCrashed("it does not read what the caller sends") from None
            raise Exhausted("deadline", self.caps.deadline, 0) from None
        except EOFError as error:
            self._crash(str(error))
        except (ValueError, OSError) as error:
            self._crash(f"it broke the protocol: {error}")
        except BaseException:
            self._lose("the caller stopped waiting for it")
            raise

    def _crash(self, why: str) -> NoReturn:
        self._lose(why)
        raise WorkerCrashed(why) from None

    def _lose(self, why: str) -> None:
        self.lost = self.lost or why
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    # -- host functions ----------------------------------------------------------------------------------------

    def _called(self, request: Any) -> tuple[bytes, bytes]:
        """Call a host function for the script, and return the message that answers."""
        match request:
            case (str(name), list(args), dict(kwargs)) if name in self._functions:
                pass
            case _:
                raise CodecError("a call of a host function that does not exist")
        if not all(type(key) is str for key in kwargs):
            raise CodecError("a call with a keyword that is not text")
        self._called_times += 1
        if self.caps.fuel is not None and self._called_times * prices.HOST_CALL > self.caps.fuel:
            raise CodecError("more calls of host functions than the fuel can pay")
        try:
            result = self._functions[name](*args, **kwargs)
        except Exception as error:
            self._failed += 1
            self._failures[self._failed] = error
            if len(self._failures) > MOST_FAILURES:
                self._failures.popitem(last=False)
            return messages.RAISED, encode((self._failed, text_for_scripts(error)))
        try:
            return messages.RETURNED, encode(self._data(result))
        except (Uncrossable, CodecError):
            return messages.REFUSED, b""

    # -- what the worker says: every byte can be an attacker's -------------------------------------------------

    def _reported(self, payload: bytes) -> tuple[Any, ...]:
        """Return the answer, after the checked report has been added up."""
        match decode(payload):
            case ((int(fuel), int(symbols), str(printed), int(dropped)), tuple(answer)):
                pass
            case _:
                raise CodecError("an answer without a report")
        before = self.fuel, self.symbol_count, self.sink.dropped
        most = _LARGEST if self.caps.fuel is None else self.caps.fuel, _LARGEST, _LARGEST
        for least, figure, largest in zip(before, (fuel, symbols, dropped), most, strict=True):
            if not least <= figure <= largest:
                raise CodecError("a report of less than before, or of more than the caps allow")
        self.sink.write(printed)
        self.fuel, self.symbol_count, self.sink.dropped = fuel, symbols, max(dropped, self.sink.dropped)
        return answer

    def _concluded(self, kind: bytes, answer: tuple[Any, ...]) -> Any:
        match kind, answer:
            case messages.VALUE, (value,):
                return value
            case messages.EXHAUSTED, (str(cap), int() | float() as figure, int(line)) if self._is_cap(cap, figure):
                raise Exhausted(cap, figure, _line(line))
            case messages.FAILED, (str(class_name), str(message), int(line), int() | None as number):
                cause = self._failures.get(number or 0)
                raise Failed(class_name[:MOST_TEXT], message[:MOST_TEXT], _line(line)) from cause
            case messages.UNCROSSABLE, (str(reason),):
                raise Uncrossable(reason[:MOST_TEXT])
        raise CodecError("an answer of an unknown form")

    def _is_cap(self, cap: str, figure: float) -> bool:
        """Return whether this cap can have ended the script. Without a cap on frames, the interpreter has one."""
        known = asdict(self.caps).get(cap)
        return known == figure if known is not None else cap == "frames" and _line(int(figure)) > 0


def _line(line: int) -> int:
    """Return a number of the worker's if it can be that of a line, and else 0."""
    return line if 0 <= line < 1 << 31 else 0
