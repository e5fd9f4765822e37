"""Known formats of problems and samples: HumanEval, MBPP, and contests with standard input. Each yields programs."""

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
"""Maps a name to its arguments, as shown to a user, and to the function that makes a source of the files."""


def find(name: str, paths: Sequence[Path]) -> Source:
    """Return the source that reads ``paths`` in the format ``name``. Raises ``JobError``."""
    usage, make = FORMATS[name]
    fewest, most = len([argument for argument in usage.split() if not argument.startswith("[")]), len(usage.split())
    if not fewest <= len(paths) <= most:
        raise JobError(f"{name}: expected {usage}, got {len(paths)} files")
    return make(paths)
