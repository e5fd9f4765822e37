"""``datetime`` and ``time``: with a clock that the host sets, and that stands still while a script runs."""

from __future__ import annotations

import datetime as real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.namespace import Namespace

MOST_NAME = 100


def datetime(space: Namespace) -> dict[str, Any]:
    """Return the members of ``datetime``."""
    made = _Moments(space)
    facade = space.classes.facade
    date = {
        "today": made.date_today,
        "fromisoformat": _plain(real.date.fromisoformat),
        "fromordinal": real.date.fromordinal,
        "fromisocalendar": real.date.fromisocalendar,
        "min": real.date.min,
        "max": real.date.max,
    }
    moment = {
        "now": made.now,
        "today": made.now,
        "utcnow": made.now,
        "fromtimestamp": made.fromtimestamp,
        "combine": real.datetime.combine,
        "fromisoformat": _plain(real.datetime.fromisoformat),
        "strptime": made.strptime,
        "min": real.datetime.min,
        "max": real.datetime.max,
        "fromordinal": real.datetime.fromordinal,
    }
    clock = {"fromisoformat": _plain(real.time.fromisoformat), "min": real.time.min, "max": real.time.max}
    span = {"min": real.timedelta.min, "max": real.timedelta.max}
    return {
        "date": facade("date", real.date, _numeric(real.date), date),
        "datetime": facade("datetime", real.datetime, _numeric(real.datetime), moment),
        "time": facade("time", real.time, _numeric(real.time), clock),
        "timedelta": facade("timedelta", real.timedelta, real.timedelta, span),
        "timezone": facade("timezone", real.timezone, _zone, {"utc": real.UTC}),
        "UTC": real.UTC,
        "MINYEAR": real.MINYEAR,
        "MAXYEAR": real.MAXYEAR,
    }


def _plain(perform: Callable[[str], Any]) -> Callable[[Any], Any]:
    def guard(text: Any) -> Any:
        if type(text) is not str or len(text) > 64:
            raise ValueError("expected text of at most 64 characters")
        return perform(text)

    return guard


def _numeric(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a constructor that refuses the packed form of a moment, whose parts CPython does not check."""

    def guard(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) in (bytes, str):
            raise TypeError(f"{type(args[0]).__name__!r} object cannot be interpreted as an integer")
        return make(*args, **kwargs)

    return guard


def _zone(offset: Any, *name: Any) -> Any:
    if name and (type(name[0]) is not str or len(name[0]) > MOST_NAME):
        raise ValueError(f"the name of a time zone is text of at most {MOST_NAME} characters in scripts")
    return real.timezone(offset, *name)


class _Moments:
    """Moments of one runtime."""

    def __init__(self, space: Namespace) -> None:
        self._space = space

    def now(self, tz: Any = None) -> Any:
        """Return the moment that the host set, in UTC unless another zone is given."""
        moment = real.datetime.fromtimestamp(self._space.settings.clock, real.UTC)
        return moment.replace(tzinfo=None) if tz is None else moment.astimezone(tz)

    def date_today(self) -> Any:
        """Return the day that the host set."""
        return self.now().date()

    def fromtimestamp(self, timestamp: Any, tz: Any = None) -> Any:
        """Perform ``fromtimestamp``, in UTC unless another zone is given."""
        if type(timestamp) not in (int, float):
            raise TypeError("expected a number")
        moment = real.datetime.fromtimestamp(timestamp, real.UTC)
        return moment.replace(tzinfo=None) if tz is None else moment.astimezone(tz)

    def strptime(self, text: Any, template: Any) -> Any:
        """Perform ``strptime``."""
        if type(text) is not str or type(template) is not str or max(len(text), len(template)) > 100:
            raise ValueError("strptime takes texts of at most 100 characters in scripts")
        if "%Z" in template or "%c" in template or "%x" in template or "%X" in template:
            raise ValueError("this directive depends on the host, and is not available in scripts")
        self._space.meter.charge(20 + (len(template) * len(text)) // 4)
        return real.datetime.strptime(text, template)


def time(space: Namespace) -> dict[str, Any]:
    """Return the members of ``time``. A script cannot wait, and for it the clock stands still."""
    clock = space.settings.clock
    return {"time": lambda: clock, "monotonic": lambda: clock, "perf_counter": lambda: clock}
