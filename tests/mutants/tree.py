"""Copies of the source with some protections switched off, and attacks on them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.mutants.protection import Protection

_SOURCE = Path(__file__).parents[2] / "src"
_SECONDS = 600
# These namespaces contain a broken sandbox: attacks can kill every process that they see, or rename the machine.
APART = (
    "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--uts",
)  # fmt: skip


# Attacks on a broken sandbox can wait long, and an unexpected result needs no second attempt.
_IMPATIENT = (
    ("attacks/policies.py", "WALL_SECONDS = 20.0", "WALL_SECONDS = 5.0"),
    ("attacks/campaign.py", "if tried.verdict is Verdict.OTHERWISE or tried.lacks_proof:", "if False:"),
)


class StaleEdit(Exception):
    """The text to replace does not occur exactly once in its file, so the source has changed."""


@contextmanager
def mutated(protections: Sequence[Protection]) -> Iterator[Path]:
    """Yield a folder with a copy of the source in which ``protections`` are switched off."""
    # Not in /tmp: every sandbox has its own /tmp, which would hide files that a broken sandbox shows.
    with tempfile.TemporaryDirectory(prefix="stockade-test-", dir="/var/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        shutil.copytree(_SOURCE, place / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for file, text in edited(protections).items():
            (place / "src" / "stockade" / file).write_text(text)
        (place / "tmp").mkdir()
        (place / "tmp").chmod(0o1777)
        yield place


def edited(protections: Sequence[Protection]) -> dict[str, str]:
    """Return the files that change, with their new text; raise ``StaleEdit`` if an edit no longer applies."""
    files: dict[str, str] = {}
    own = (edit for item in protections for edit in (*item.given, *item.edits))
    for file, old, new in dict.fromkeys((*own, *_IMPATIENT)):
        text = files.get(file) or (_SOURCE / "stockade" / file).read_text()
        if text.count(old) != 1:
            raise StaleEdit(f"{file}: found {text.count(old)} times: {old!r}")
        files[file] = text.replace(old, new)
    return files


def attacked(place: Path, only: Sequence[str]) -> list[dict[str, Any]]:
    """Return the trials of ``stockade attack``, run from the source in ``place``."""
    words = [word for name in only for word in ("--only", name)]
    done = subprocess.run(
        [*APART, sys.executable, "-m", "stockade", "attack", "--backend", "native", "--no-controls", "--json", *words],
        env={**os.environ, "PYTHONPATH": f"{place / 'src'}:{_SOURCE.parent}", "TMPDIR": str(place / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    try:
        trials: list[dict[str, Any]] = json.loads(done.stdout)["trials"]
    except (ValueError, KeyError):
        raise RuntimeError(f"{done.stdout[-500:]}{done.stderr[-1500:]}") from None
    return trials
