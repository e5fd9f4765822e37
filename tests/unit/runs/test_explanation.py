"""A result for people: bounded, and escaped for the place where it is shown."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from stockade import Guarantee, GuestError, Outcome, Usage
from stockade.planning.denial import Denial
from stockade.runs.result import LimitState, Met, Result

HOSTILE = "\x1b[2J<script>alert(1)</script>\u202e\n"


def hostile(times: int = 1) -> Result:
    text = HOSTILE * times
    return Result(
        Outcome.FAILED,
        exit_code=1,
        limits_met={Guarantee.MEMORY: LimitState(Met.NOT_MET, text)},
        stdout_bytes=text.encode(),
        stderr_bytes=text.encode(),
        value=[text],
        value_repr=text,
        error=GuestError(text, text, text + "."),
        backend="native",
        denials=(Denial(HOSTILE, 1, text, HOSTILE),) * times,
        artifacts={f"{HOSTILE}{number}": b"" for number in range(times)},
        artifacts_error=text,
    )


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_repr_hostile_text_stays_on_one_printable_line() -> None:
    line = repr(hostile(1000))
    assert line.isprintable()
    assert len(line) < 600


def test_explain_hostile_text_is_escaped() -> None:
    assert all(c.isprintable() or c == "\n" for c in hostile().explain())


def test_repr_html_hostile_text_makes_no_element() -> None:
    tags = Tags()
    tags.feed(hostile()._repr_html_())
    assert tags.seen == {"div", "b", "details", "summary", "table", "tr", "td", "pre"}
    assert tags.attributes == {"style", "open"}


@pytest.mark.parametrize("view", [Result.explain, Result._repr_html_])
def test_view_of_a_large_result_is_bounded(view) -> None:
    assert len(view(hostile(10_000))) < 200_000


def test_repr_names_value_output_and_usage() -> None:
    result = Result(
        Outcome.COMPLETED, value=45, stdout_bytes=b"hello\n", usage=Usage(wall_seconds=0.0312, peak_memory=2**20),
        backend="native",
    )  # fmt: skip
    assert repr(result) == "<Result completed; value=45; stdout='hello\\n'; 0.0312 s, 1 MiB; native>"


def test_explain_lists_a_met_limit_first() -> None:
    states = {
        Guarantee.MEMORY: LimitState(Met.NOT_MET, "peak 1 MiB"),
        Guarantee.WALL_TIME: LimitState(Met.MET, "timer: 2 s of 2 s"),
    }
    text = Result(Outcome.LIMIT_EXCEEDED, limit=Guarantee.WALL_TIME, limits_met=states).explain()
    assert text.startswith("ended by its limit on wall_time: timer: 2 s of 2 s\n")
    assert "limits:\n  wall_time  met      timer: 2 s of 2 s\n  memory     not met  peak 1 MiB" in text
