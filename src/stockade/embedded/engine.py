"""The engine: runs woven code on this process's CPython, under the caps of one runtime."""

from __future__ import annotations

import decimal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from traceback import clear_frames
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.attributes import PYTHONS
from stockade.embedded.boundary.crossing import CannotCross, Crossing
from stockade.embedded.boundary.facades import Fixed
from stockade.embedded.boundary.meter import SCRIPT, LimitHit, Meter, is_of_scripts
from stockade.embedded.boundary.namespace import Namespace
from stockade.embedded.boundary.settings import Settings
from stockade.embedded.endings import Exhausted, Failed, Uncrossable
from stockade.embedded.weave.names import check_host_name, is_special
from stockade.embedded.weave.source import SourceError
from stockade.embedded.weave.weaver import RESULT, weave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stockade.embedded.boundary.meter import Limits
    from stockade.embedded.sink import Sink

SLACK = 24
"""Frames of guards that a script's own depth of calls may need beyond its cap."""
MOST_WEIGHT = 10_000_000
MOST_CHAINED = 100
ORIGINAL = "$original"
CROSSING_FRAMES = 500
MOST_MESSAGE = 2000
MOST_CROSSING = 64 * 1024 * 1024
_ARITHMETIC = decimal.Context(
    prec=28, rounding=decimal.ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999, capitals=1, clamp=0,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)  # fmt: skip
_one_at_a_time = threading.RLock()  # the recursion limit belongs to the whole interpreter


class HostError(RuntimeError, metaclass=Fixed):
    """A host function failed. Scripts can catch it; it tells nothing about the host."""


class Engine:
    """The state of one runtime: its names, its meter and its output."""

    lost = ""

    def __init__(self, caps: Limits, *, clock: float, seed: int, sink: Sink) -> None:
        if sys.implementation.name != "cpython" or sys.version_info[:2] not in PYTHONS:
            known = ", ".join(".".join(map(str, each)) for each in sorted(PYTHONS))
            raise RuntimeError(f"the boundary is vetted for CPython {known}, not for this interpreter")
        self.caps, self.sink, self.meter = caps, sink, Meter(caps)
        self._outside = decimal.getcontext()
        self.space = Namespace(self.meter, Settings(self.sink.write, HostError, clock, seed))

    @property
    def fuel(self) -> int:
        """Return the units that were used since the runtime was made."""
        return self.meter.spent

    @property
    def symbol_count(self) -> int:
        """Return how many distinct names the scripts have introduced."""
        return len(self.meter.symbols)

    def remaining(self) -> float | None:
        """Return the seconds until the deadline, or None without one."""
        return self.meter.remaining()

    def close(self) -> None:
        """Do nothing: the engine ends with its last reference."""

    def register(self, name: str, call: Callable[..., Any]) -> None:
        """Make ``call`` a built-in function of the scripts. It receives and returns copies of data."""
        check_host_name(name, "a host function")

        def host_function(*args: Any, **kwargs: Any) -> Any:
            return self._call_host(name, call, args, kwargs)

        self.space.names["__builtins__"][name] = host_function

    def _call_host(self, name: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self.meter.confirm()
        self.meter.charge(prices.HOST_CALL)
        try:
            given, named = self._crossed(list(args)), self._crossed(dict(kwargs))
        except CannotCross as error:
            raise TypeError(f"an argument of {name!r} cannot leave the script: {error}") from None
        try:
            with decimal.localcontext(self._outside):
                result = call(*given, **named)
        except Exception as error:
            raise self._failed(_public_text(name, error), error) from None
        finally:
            self.meter.look()
        try:
            return self._crossed(result)
        except CannotCross as error:
            raise self._failed(f"host function {name!r} returned what cannot enter the script", error) from None

    @staticmethod
    def _failed(text: str, original: Exception) -> HostError:
        """Return the error that a script sees, with the original under a name that no script can spell."""
        error = HostError(text)
        error.__dict__[ORIGINAL] = original
        return error

    def _crossed(self, value: Any) -> Any:
        most = min(MOST_CROSSING, self.meter.value_cap)
        noticed = self.space.operators.accounted
        crossing = Crossing(lambda size: self.meter.charge(1 + size // prices.BYTES), most, noticed)
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + CROSSING_FRAMES)  # no code of the script runs during a copy
        try:
            return crossing.copy(value)
        finally:
            sys.setrecursionlimit(before)

    def run(self, source: str, filename: str) -> Any:
        """Run ``source`` and return the value of its last expression, or None."""
        begun = time.monotonic()
        try:
            woven = weave(source, filename)
        except SourceError as error:
            raise Failed(error.class_name, str(error), error.line) from None
        names = self.space.names
        names.pop(RESULT, None)
        with self._metered(begun):
            self.meter.symbols |= woven.symbols
            if self.caps.symbols is not None and len(self.meter.symbols) > self.caps.symbols:
                self.meter.trip("symbols", self.caps.symbols)
            exec(woven.code, names)
            return self._leaving(names.pop(RESULT)) if woven.has_value else None

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the script and return its value."""
        with self._metered():
            return self._leaving(self._named(name)(*self._crossed(list(args)), **self._crossed(kwargs)))

    def get(self, name: str) -> Any:
        """Return the value of a global name of the scripts."""
        with self._metered():
            return self._leaving(self._named(name))

    def set(self, name: str, value: Any) -> None:
        """Bind a global name of the scripts to a copy of ``value``."""
        check_host_name(name, "a value")
        with self._metered():
            self.space.names[name] = self._crossed(value)
            self.meter.symbol(name)

    def _named(self, name: str) -> Any:
        if name not in self.space.names or is_special(name) or "$" in name:
            raise NameError(f"name {name!r} is not defined")
        return self.space.names[name]

    def _leaving(self, value: Any) -> Any:
        self.meter.confirm()
        if self.space.scales.weigh(value, MOST_WEIGHT) > MOST_WEIGHT:
            raise CannotCross("it has too many parts, shared ones counted each time")
        return self._crossed(value)

    @contextmanager
    def _metered(self, begun: float | None = None) -> Iterator[None]:
        self._outside = decimal.getcontext()
        try:
            with _one_at_a_time, self._bounded_frames(), _quiet(), decimal.localcontext(_ARITHMETIC):
                self.meter.start(begun)
                error: BaseException | None = None
                try:
                    yield
                except BaseException as raised:
                    error = raised
                    if is_of_scripts(raised):
                        clear_frames(raised.__traceback__)  # generators in them end now, and not after the call
                if self.meter.hit is None:
                    with suppress(LimitHit):  # this unit of fuel may be one too many
                        self.meter.confirm()
            self._finish(error)
        finally:
            self.meter.end()

    def _finish(self, error: BaseException | None) -> None:
        if self.meter.hit is None and isinstance(error, RecursionError) and self.caps.frames is not None:
            self.meter.hit = "frames", self.caps.frames
        if self.meter.hit is not None:
            raise Exhausted(*self.meter.hit, self.meter.line or _line(error)) from None
        if isinstance(error, CannotCross):
            raise Uncrossable(str(error)) from None
        if error is not None and is_of_scripts(error):
            raise Failed(type(error).__name__, self._message(error), _line(error)) from _original(error)
        if error is not None:
            raise error

    def _message(self, error: BaseException) -> str:
        """Return the text of a script's exception. Its own method may run, so this is metered as well."""
        try:
            with self._bounded_frames(), _quiet(), decimal.localcontext(_ARITHMETIC):
                text = self.space.rendering.str_of(error)
        except (Exception, LimitHit):
            text = "the message of this exception is unavailable"
        if self.meter.hit is not None:
            raise Exhausted(*self.meter.hit, _line(error)) from None
        return text[:MOST_MESSAGE]

    @contextmanager
    def _bounded_frames(self) -> Iterator[None]:
        before = sys.getrecursionlimit()
        if self.caps.frames is None:
            yield
            return
        depth = 1
        frame = sys._getframe()
        while frame.f_back is not None:
            depth, frame = depth + 1, frame.f_back
        sys.setrecursionlimit(depth + self.caps.frames + SLACK)
        try:
            yield
        finally:
            sys.setrecursionlimit(before)


def _public_text(name: str, error: Exception) -> str:
    """Return what a script may know of a failed host function: only a text that the host wrote for it."""
    text = str(error)[:MOST_MESSAGE] if getattr(error, "is_for_scripts", False) is True else ""
    return f"host function {name!r} failed" + (f": {text}" if text else "")


def _original(error: BaseException) -> BaseException | None:
    """Return the exception of a host function from which an error of the script came, if any."""
    for _ in range(MOST_CHAINED):
        original = error.__dict__.get(ORIGINAL) if isinstance(error, HostError) else None
        following = error.__cause__ if error.__suppress_context__ else error.__cause__ or error.__context__
        if original is not None or following is None:
            return original
        error = following
    return None


def _line(error: BaseException | None) -> int:
    """Return the last line of a script in the traceback of ``error``."""
    line = 0
    trace = error.__traceback__ if error is not None else None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(SCRIPT):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what a generator of the script raises while it is dropped off the host's standard error."""
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        code = getattr(unraisable.object, "gi_code", None)  # of a generator that yielded when it was to end
        is_of_a_script = code is not None and code.co_filename.startswith(SCRIPT)
        if not (is_of_a_script or isinstance(unraisable.exc_value, LimitHit) or _line(unraisable.exc_value)):
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
