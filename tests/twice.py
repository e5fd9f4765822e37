"""``python -m tests.twice ARGUMENTS [-- ARGUMENTS]``: run pytest, once for each group of arguments; what fails is run once
more, alone, and counts if it fails again.

Many tests here measure time on a machine that others use too. What needed its second chance is named at the end, so
that it can be mended.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_FAILED = Path(".pytest_cache/v/cache/lastfailed")
_SOME_FAILED = 1
_MOST = 10  # more than that is no accident


def main() -> int:
    """Run each group; return the first exit status that is not 0."""
    groups: list[list[str]] = [[]]
    for word in sys.argv[1:]:
        if word == "--":
            groups.append([])
        else:
            groups[-1].append(word)
    return next((status for status in list(map(_run, groups)) if status), 0)


def _run(arguments: list[str]) -> int:
    """Run, and run again; return pytest's exit status."""
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    status = subprocess.run(command, check=False).returncode
    failed = _failed()
    if status != _SOME_FAILED or not 0 < len(failed) <= _MOST:
        return status
    print("\n== once more, alone:", *failed, sep="\n   ", flush=True)
    alone = ["-n0"] if "-n2" in command else []
    again = [*command, *alone, "--last-failed", "--last-failed-no-failures=none"]
    status = subprocess.run(again, check=False).returncode
    if status == 0:
        print("\n== passed at the second attempt only:", *failed, sep="\n   ", flush=True)
    return status


def _failed() -> list[str]:
    try:
        return sorted(json.loads(_FAILED.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []


if __name__ == "__main__":
    sys.exit(main())
