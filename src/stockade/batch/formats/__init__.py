"""Known formats of problems and samples, read as programs: HumanEval, MBPP, and contests with standard input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from stockade.batch.formats import contests, humaneval, mbpp
from stockade.batch.sources import Source
from stockade.core.errors import JobError

FORMATS: dict[str, tuple[str, Callable[[Sequence[Path]], Source]]] = {
    "humaneval": ("[SAMPLES]", humaneval.source),
    "mbpp": ("FILE [SAMPLES]", mbpp.source),
    "apps": ("FILE [SAMPLES]", contests.apps),
    "livecodebench": ("FILE SAMPLES", contests.livecodebench),
}
"""Name to the files that it takes, in words, and what makes a source of them."""


def find(name: str, paths: Sequence[Path]) -> Source:
    """Return the source of the format ``name`` in its files. Raises ``JobError``."""
    words, make = FORMATS[name]
    fewest, most = len([word for word in words.split() if not word.startswith("[")]), len(words.split())
    if not fewest <= len(paths) <= most:
        raise JobError(f"{name}: takes {words}, not {len(paths)} files")
    return make(paths)
