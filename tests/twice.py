"""``python -m tests.twice ARGUMENTS``: run pytest; what fails is run once more, alone, and counts if it fails again.

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
    """Run, and run again; return pytest's exit status."""
    command = [sys.executable, "-m", "pytest", "-q", *sys.argv[1:]]
    status = subprocess.run(command, check=False).returncode
    failed = _failed()
    if status != _SOME_FAILED or not 0 < len(failed) <= _MOST:
        return status
    print("\n== once more, alone:", *failed, sep="\n   ", flush=True)
    status = subprocess.run([*command, "--last-failed", "--last-failed-no-failures=none"], check=False).returncode
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
