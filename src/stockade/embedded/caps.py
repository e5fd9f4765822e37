"""The six caps of an embedded runtime, and the trust that each configuration is good enough for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, Literal, TypeVar

from stockade.core.errors import FieldProblem, PolicyError, nearest
from stockade.core.units import MOST_FRAMES

Trust = Literal["trusted", "semi-trusted", "untrusted"]
_Kind = TypeVar("_Kind")


def _suggesting(kind: type[_Kind]) -> type[_Kind]:
    """Make the error for an unknown keyword of a data class name the field that was probably meant."""
    make = kind.__init__
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]

    @wraps(make)
    def init(self: _Kind, *values: Any, **named: Any) -> None:
        for name in named:
            if name not in known:
                near = nearest(name, known)
                way = f"did you mean {near!r}?" if near else f"there are {', '.join(known)}"
                raise TypeError(f"{kind.__name__} has no field {name!r}; {way}")
        make(self, *values, **named)

    kind.__init__ = init  # type: ignore[assignment]
    return kind


@_suggesting
@dataclass(frozen=True)
class Caps:
    """Limits of one runtime. Each is optional, none is set by default, and each works without the others.

    Attributes:
        fuel: units of work, as the published price list counts them. Exact, and the same on every supported Python.
        heap_objects: memory blocks that the script holds. Sampled at most every 1,000 units.
        frames: depth of calls, at most 2,000.
        deadline: seconds on the clock for one call of the runtime, host functions included.
        symbols: distinct names that the scripts of one runtime introduce.
        value_bytes: size of one value, as ``sys.getsizeof`` counts it.
    """

    fuel: int | None = None
    heap_objects: int | None = None
    frames: int | None = None
    deadline: float | None = None
    symbols: int | None = None
    value_bytes: int | None = None

    def __post_init__(self) -> None:
        problems = [FieldProblem(f"caps.{name}", repr(value), why) for name, value, why in self._problems()]
        if problems:
            raise PolicyError(problems)

    def _problems(self) -> list[tuple[str, object, str]]:
        found: list[tuple[str, object, str]] = []
        for field in fields(self):
            value = getattr(self, field.name)
            kinds = (int, float) if field.name == "deadline" else (int,)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, kinds):
                found.append((field.name, value, "expected a number, or None for no cap"))
            elif not 0 < value < 2**62:
                found.append((field.name, value, "must be above zero and below 2**62"))
            elif field.name == "frames" and value > MOST_FRAMES:
                reason = f"must be at most {MOST_FRAMES:,}: deeper calls can end CPython's stack"
                found.append((field.name, value, reason))
        return found

    @classmethod
    def semi_trusted(cls) -> Caps:
        """Return all six caps with the values for a small configuration file of a customer."""
        return cls(fuel=1_000_000, heap_objects=10_000, frames=256, deadline=2.0, symbols=10_000, value_bytes=1_048_576)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the names of the caps that are not set."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is None)


def require(trust: str, caps: Caps) -> None:
    """Refuse a configuration that is not good enough for ``trust``. Raise ``PolicyError`` with the reason."""
    if trust == "trusted" or (trust == "semi-trusted" and not caps.missing):
        return
    if trust == "semi-trusted":
        reason = f"needs every cap; set {', '.join(caps.missing)}, or use Caps.semi_trusted()"
    elif trust == "untrusted":
        reason = (
            "an embedded runtime shares a kernel, and in_process=True also a process, with your application; "
            "run untrusted code by stockade.run, which isolates it by a sandbox of its own"
        )
    else:
        reason = "expected 'trusted', 'semi-trusted' or 'untrusted'"
    raise PolicyError([FieldProblem("trust", repr(trust), reason)])
