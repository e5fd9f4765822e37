"""``python -m tests.twice ARGUMENTS``: run pytest and give a second try to those failures that may have one.

- A test marked ``timing`` measures time on a machine that others use too. It runs once more, alone.
- A failed test of ``tests/escape`` runs twenty times more, alone. One failure among the twenty-one later ones fails the suite:
  a protection that holds nineteen times in twenty does not hold.
- Every other failure counts at once.

Each second try is appended to ``.second-tries.txt`` and counted on the last line of the output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

_LEDGER = Path(".second-tries.txt")
_SOME_FAILED = 1
_MOST = 10
"""More failures than this are no accident: none of them gets a second try."""
_ESCAPE_TRIES = 20
_ESCAPE = "tests/escape/"


def main() -> int:
    """Run the suite, repeat what may be repeated, and return pytest's exit status."""
    with tempfile.TemporaryDirectory() as cache:  # another part of the suite may run in this folder
        status = _pytest([*sys.argv[1:], "-o", f"cache_dir={cache}"])
        failed = _failed(Path(cache))
    if status != _SOME_FAILED or not 0 < len(failed) <= _MOST:
        return status
    escapes = [name for name in failed if name.startswith(_ESCAPE)]
    timing = _marked_timing([name for name in failed if not name.startswith(_ESCAPE)])
    final = sorted({*failed} - {*escapes} - {*timing})
    if final:
        print("\n== failed, and not allowed a second try:", *final, sep="\n   ", flush=True)
        return status
    print("\n== second tries:", *escapes, *timing, sep="\n   ", flush=True)
    _note(escapes, "escape")
    _note(timing, "timing")
    for number in range(_ESCAPE_TRIES if escapes else 0):
        if _pytest(escapes):
            print(f"\n== failed again, at try {number + 2} of {_ESCAPE_TRIES + 1}", flush=True)
            return _SOME_FAILED
    if timing and _pytest(timing):
        return _SOME_FAILED
    print(f"\n== passed by a second try: {len(failed)} (see {_LEDGER})", *failed, sep="\n   ", flush=True)
    return 0


def _pytest(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments], check=False).returncode


def _marked_timing(names: list[str]) -> list[str]:
    """Return those of ``names`` whose tests carry the marker ``timing``."""
    if not names:
        return []
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "timing", *names]
    listed = subprocess.run(command, check=False, capture_output=True, text=True).stdout.splitlines()
    return sorted({*names} & {*listed})


def _note(names: list[str], kind: str) -> None:
    with _LEDGER.open("a", encoding="utf-8") as ledger:
        for name in names:
            ledger.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {kind} {name}\n")


def _failed(cache: Path) -> list[str]:
    try:
        return sorted(json.loads((cache / "v/cache/lastfailed").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []


if __name__ == "__main__":
    sys.exit(main())
