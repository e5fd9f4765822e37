"""``stockade.call`` runs one function of the caller's in a sandbox."""

from __future__ import annotations

from typing import Any

import pytest

import stockade


def describe(rows: list[dict[str, Any]], note: str) -> dict[str, Any]:
    from pathlib import Path

    print("output is not the value")
    return {
        "total": sum(row["n"] for row in rows),
        "note": note,
        "none": None,
        "hidden": not Path("/etc/shadow").exists(),
    }


def divide(value: int) -> float:
    return 1 / value


def odd() -> object:
    return {1, 2}


def nothing() -> None:
    return None


def endless() -> None:
    while True:
        pass


def test_call_returns_plain_data_from_inside() -> None:
    value = stockade.call(describe, [{"n": 1}, {"n": 2.5}], 'it\'s "quoted" \\ \u2028 é', timeout=20)
    assert value == {"total": 3.5, "note": 'it\'s "quoted" \\ \u2028 é', "none": None, "hidden": True}
    assert stockade.call(nothing) is None


def test_call_keeps_texts_of_a_nested_function() -> None:
    def lines() -> str:
        return """one
        two
    three"""

    assert stockade.call(lines) == lines()


def test_long_source_that_ends_like_a_file_name_runs() -> None:
    assert stockade.run("#" + "x" * 300 + ".py").ok


def test_call_of_a_failing_function_raises_its_error() -> None:
    with pytest.raises(stockade.GuestFailed, match="ZeroDivisionError") as caught:
        stockade.call(divide, 0)
    error = caught.value.result.error
    assert error is not None and "return 1 / value" in error.traceback
    with pytest.raises(stockade.ResourceExhausted):
        stockade.call(endless, timeout=0.5)
    with pytest.raises(stockade.JobError, match=r"odd returns \{1, 2\}, which is not plain data"):
        stockade.call(odd)
