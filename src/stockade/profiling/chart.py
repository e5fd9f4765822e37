"""Draw a trace: a lane for each process, a bar for each step, a pale bar while a process wakes up. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from stockade.profiling.steps import Step, Trace

_WIDTH, _LEFT, _RIGHT = 960, 84, 20
_LANE, _BAR, _ROW = 46, 26, 20
_TOP = 58
_COLOURS = {"caller": "#2f6fb3", "warden": "#b3622f", "guest": "#3a8f4d", "worker": "#7a52a8"}
_NARROWEST = 13
_TICKS = 8


def svg(trace: Trace, title: str) -> str:
    """Return the picture as an SVG document."""
    drawn = _Drawing(trace)
    body = "\n".join(drawn.elements(title))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{drawn.height}" '
        f'viewBox="0 0 {_WIDTH} {drawn.height}" font-family="sans-serif" font-size="12">\n{body}\n</svg>\n'
    )


class _Drawing:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._lanes = [name for name in _COLOURS if any(step.process == name for step in trace.steps)]
        self._at = {step.name: step.at for step in trace.steps}
        self._process = {step.name: step.process for step in trace.steps}
        self._end = max(step.at for step in trace.steps)
        self._axis = _TOP + _LANE * len(self._lanes)
        self.height = self._axis + 44 + _ROW * (len(trace.steps) + 1) + 10

    def elements(self, title: str) -> Iterator[str]:
        """Yield the elements of the picture, from back to front."""
        yield f'<rect width="{_WIDTH}" height="{self.height}" fill="white"/>'
        yield _text(12, 22, title, size=15)
        whole = f"{self._trace.whole:,.0f} µs from call to return; medians of {self._trace.runs} runs"
        yield _text(12, 40, whole, colour="#555")
        yield from self._scale()
        yield from self._lane_names()
        for number, step in enumerate(self._trace.steps, 1):
            yield from self._bar(number, step)
        yield from self._return()
        yield from self._legend()

    def _x(self, at: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at / self._end

    def _y(self, process: str) -> float:
        return _TOP + _LANE * self._lanes.index(process) + (_LANE - _BAR) / 2

    def _scale(self) -> Iterator[str]:
        pitch = _round(self._end / _TICKS)
        at = 0.0
        while at <= self._end:
            x = self._x(at)
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{self._axis}" stroke="#ddd"/>'
            yield _text(x, self._axis + 16, f"{at:,.0f}", colour="#555", anchor="middle")
            at += pitch
        yield _text(_WIDTH - _RIGHT, self._axis + 32, "µs", colour="#555", anchor="end")

    def _lane_names(self) -> Iterator[str]:
        for name in self._lanes:
            yield _text(12, self._y(name) + _BAR / 2 + 4, name, colour=_COLOURS[name])

    def _bar(self, number: int, step: Step) -> Iterator[str]:
        left, right = self._x(self._at.get(step.since, 0.0)), self._x(step.at)
        y, colour = self._y(step.process), _COLOURS[step.process]
        woken = self._process.get(step.since, "caller") != step.process
        width = max(right - left, 1.0)
        yield (
            f'<rect x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BAR}" fill="{colour}" '
            f'fill-opacity="{0.25 if woken else 0.85}" stroke="white" stroke-width="0.5">'
            f"<title>{escape(step.what)}: {step.took:,.0f} µs</title></rect>"
        )
        if width >= _NARROWEST:
            ink = colour if woken else "white"
            yield _text((left + right) / 2, y + _BAR / 2 + 4, str(number), colour=ink, anchor="middle", size=11)

    def _return(self) -> Iterator[str]:
        x = self._x(self._trace.whole)
        dashed = 'stroke="#222" stroke-dasharray="4 3"'
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{self._axis}" {dashed}/>'
        yield _text(x, _TOP - 8, "returned", colour="#222", anchor="middle", size=11)

    def _legend(self) -> Iterator[str]:
        top = self._axis + 44
        yield _text(150, top, "µs", colour="#555", anchor="end")
        yield _text(210, top, "p90", colour="#555", anchor="end")
        for number, step in enumerate(self._trace.steps, 1):
            y = top + _ROW * number
            yield _text(36, y, str(number), colour="#555", anchor="end")
            yield _text(48, y, step.process, colour=_COLOURS[step.process])
            yield _text(150, y, f"{step.took:,.0f}", anchor="end")
            yield _text(210, y, f"{step.p90:,.0f}", colour="#555", anchor="end")
            yield _text(226, y, step.what + (", after the answer" if step.behind else ""))


def _text(x: float, y: float, text: str, *, colour: str = "#222", anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
    )


def _round(value: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, 50, ... that is not smaller than ``value``."""
    steps: Sequence[float] = (1, 2, 5)
    power = 1.0
    while True:
        for step in steps:
            if step * power >= value:
                return step * power
        power *= 10
