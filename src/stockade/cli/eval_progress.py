"""Show the progress of a batch on standard error: a bar on a terminal, elsewhere a plain line from time to time."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from stockade.cli.reporting import printable

_BAR_SECONDS = 0.1
_LINE_SECONDS = 10.0
_LONGEST_BAR = 30
_RECENT = 20.0
"""Seconds over which the rate is measured. Older progress says little about the remaining time."""
_SHORT = {
    "passed": "ok", "wrong_output": "wrong", "limit_exceeded": "limit", "compile_error": "compile",
    "not_tested": "untested", "not_judged": "unjudged", "sandbox_failed": "SANDBOX",
}  # fmt: skip


@contextmanager
def notice(text: str, *, quiet: bool) -> Iterator[None]:
    """Show a text on a terminal while the body runs."""
    shown = not quiet and sys.stderr is not None and sys.stderr.isatty()
    with suppress(OSError):  # the terminal is gone
        if shown:
            sys.stderr.write(text)
            sys.stderr.flush()
    try:
        yield
    finally:
        with suppress(OSError):
            if shown:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()


class Progress:
    """Counts verdicts, and shows the counts from time to time."""

    def __init__(self, total: int, done: int = 0, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._total, self._done, self._begun = total, done, done
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet or self._stream is None
        self._bar = not self._quiet and self._stream.isatty()
        self._start = self._shown = time.monotonic()
        self._marks: list[tuple[float, int]] = [(self._start, done)]

    def step(self, words: Mapping[str, int]) -> None:
        """Count another verdict; ``words`` holds the counts of all verdicts."""
        self._done += 1
        now = time.monotonic()
        if self._quiet or now - self._shown < (_BAR_SECONDS if self._bar else _LINE_SECONDS):
            return
        self._shown = now
        self._mark(now)
        self._show(words)

    def clear(self) -> None:
        """Remove the bar."""
        if self._bar:
            self._write("\r\x1b[K")

    def say(self, text: str) -> None:
        """Write a line of text, above the bar if there is one."""
        self.clear()
        self._write(printable(text) + "\n")

    def sentence(self) -> str:
        """Return how much was judged since this process started."""
        seconds = time.monotonic() - self._start
        judged = self._done - self._begun
        rate = f", {judged / seconds:.1f} a second" if judged and seconds else ""
        return f"{judged} judged in {duration(seconds)}{rate}"

    def _mark(self, now: float) -> None:
        self._marks.append((now, self._done))
        while len(self._marks) > 2 and now - self._marks[0][0] > _RECENT:
            self._marks.pop(0)

    def _show(self, words: Mapping[str, int]) -> None:
        (then, before), (now, done) = self._marks[0], self._marks[-1]
        rate = (done - before) / (now - then) if now > then else 0.0
        left = f", {duration((self._total - done) / rate)} left" if rate else ""
        counts = " ".join(f"{_SHORT.get(word, word)} {count}" for word, count in words.items() if count)
        text = f"{done}/{self._total} {rate:.1f}/s{left}  {counts}"
        self._write("\r" + self._with_bar(text) + "\x1b[K" if self._bar else text + "\n")

    def _with_bar(self, text: str) -> str:
        columns = shutil.get_terminal_size().columns
        length = min(_LONGEST_BAR, columns - len(text) - 4)
        if length < 5:
            return text[: columns - 1]
        filled = length * self._done // max(1, self._total)
        return f"[{'#' * filled}{'.' * (length - filled)}] {text}"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the reader is gone; the batch continues
            self._quiet = True


def duration(seconds: float) -> str:
    """Return a number of seconds in a readable form."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def as_shown(record: Mapping[str, Any]) -> str:
    """Return a verdict, with its limit if there is one."""
    return f"{record['verdict']}:{record['limit']}" if record["limit"] else str(record["verdict"])
