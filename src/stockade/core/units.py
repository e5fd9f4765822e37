"""Sizes, durations and counts, as a person writes them, parsed to numbers. Invalid input raises ``ValueError``."""

from __future__ import annotations

import math
import re
from typing import Any, Literal, TypeVar

_N = TypeVar("_N", int, float)

UNLIMITED: Literal["unlimited"] = "unlimited"
"""The only way to lift a limit."""

_SIZE_UNITS = {
    "": 1, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
_TIME_UNITS = {"": 1.0, "MS": 1e-3, "S": 1.0, "M": 60.0, "MIN": 60.0, "H": 3600.0}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)

MAX_SIZE = 2**50
MAX_SECONDS = 366 * 86400.0
MAX_OPERATIONS = 10**15  # weeks of the fastest interpreter
MOST_FRAMES = 2000  # calls of a script: deeper ones can end CPython's stack
MAX_COUNT = 4 * 1024 * 1024  # PID_MAX_LIMIT of a 64-bit kernel, include/linux/threads.h


def parse_size(value: Any) -> int | Literal["unlimited"]:
    """Return ``value`` (an int, ``"64MiB"``, ``"1.5GB"``, ``"unlimited"``) in bytes."""
    if value == UNLIMITED:
        return UNLIMITED
    number = _parse(value, _SIZE_UNITS, "a size such as 67108864, '64MiB' or 'unlimited'")
    return _bounded(_whole(number), MAX_SIZE, "1 PiB")


def parse_count(value: Any) -> int | Literal["unlimited"]:
    """Return ``value`` (an int, ``"10"``, ``"unlimited"``) as a count."""
    if value == UNLIMITED:
        return UNLIMITED
    number = _parse(value, {"": 1}, "a whole number such as 10, or 'unlimited'")
    return _bounded(_whole(number), MAX_COUNT, f"{MAX_COUNT:,}")


def parse_operations(value: Any) -> int | Literal["unlimited"]:
    """Return ``value`` (an int, ``"1000000"``, ``"unlimited"``) as a count of lines and loop turns."""
    if value == UNLIMITED:
        return UNLIMITED
    number = _parse(value, {"": 1}, "a whole number such as 1000000, or 'unlimited'")
    return _bounded(_whole(number), MAX_OPERATIONS, f"{MAX_OPERATIONS:,}")


def parse_seconds(value: Any) -> float | Literal["unlimited"]:
    """Return ``value`` (a number, ``"1.5s"``, ``"250ms"``, ``"2min"``, ``"unlimited"``) in seconds."""
    if value == UNLIMITED:
        return UNLIMITED
    number = _parse(value, _TIME_UNITS, "a duration such as 2, '1.5s', '250ms' or 'unlimited'")
    return _bounded(number, MAX_SECONDS, "366 days")


def parse_cores(value: Any) -> float | Literal["unlimited"]:
    """Return ``value`` (a number of cores such as ``0.5``, or ``"unlimited"``)."""
    if value == UNLIMITED:
        return UNLIMITED
    return _bounded(_parse(value, {"": 1.0}, "a number of cores such as 0.5 or 'unlimited'"), 65536.0, "65,536")


def format_size(size: float) -> str:
    """Return ``size`` bytes as a person writes it: exact if a binary unit divides it, otherwise rounded."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        factor = _SIZE_UNITS[unit.upper()]
        if size >= factor:
            return f"{size / factor:.10g} {unit}" if size % factor == 0 else f"{size / factor:.1f} {unit}"
    return f"{size:g} B"


def _parse(value: Any, units: dict[str, Any], expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"expected {expected}")
    if isinstance(value, int):
        number: float = value
    elif isinstance(value, float):
        number = value
    else:
        match = _NUMBER.fullmatch(value.strip())
        if match is None or match[2].upper() not in units:
            raise ValueError(f"expected {expected}")
        factor = units[match[2].upper()]
        number = float(match[1]) * factor if "." in match[1] else int(match[1]) * factor
        if isinstance(factor, int) and factor > 1:
            number = int(number)  # drop the fraction of a byte that 1.1 MiB has
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError("must be a finite number")
    if number < 0:
        raise ValueError("must not be negative")
    return number


def _whole(number: float) -> int:
    if number != int(number):
        raise ValueError("must be a whole number")
    return int(number)


def _bounded(number: _N, most: _N, words: str) -> _N:
    if number > most:
        raise ValueError(f"larger than {words}; write 'unlimited' to lift the limit")
    return number
