"""``stockade completion``: bash reads the script and completes; zsh and fish get the answers that they ask for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPLETED = {
    "ru": "run",
    "run --profile s": "strict",
    "run --backend n": "native",
    "run --language ja": "javascript",
    "run --limit soft": "soft_memory=",
}
SCRIPT = """
source ./script
while read -ra words; do
    COMP_WORDS=(stockade "${words[@]}"); COMP_CWORD=${#words[@]}
    COMPREPLY=(); _stockade_completion stockade
    echo "${COMPREPLY[@]}"
done
"""


def test_completion_in_bash_completes_commands_and_values(stockade, folder: Path) -> None:
    program = folder / "stockade"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m stockade "$@"\n')
    program.chmod(0o755)
    (folder / "script").write_bytes(stockade("completion", "bash").stdout)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    lines = "".join(f"{line}\n" for line in COMPLETED)
    done = subprocess.run(
        ["bash", "-c", SCRIPT], input=lines, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.splitlines(), done.stderr) == ([*COMPLETED.values()], "")


@pytest.mark.parametrize(("shell", "answer"), [("zsh", "plain\nnative\n_\n"), ("fish", "plain,native\n")])
def test_completion_answers_other_shells(stockade, shell, answer) -> None:
    assert b"_STOCKADE_COMPLETE=" in stockade("completion", shell).stdout
    line = "stockade run --backend n" if shell == "zsh" else "stockade run --backend "
    asked = {
        "_STOCKADE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": "3" if shell == "zsh" else "n",
    }
    assert stockade(env=asked).stdout.decode() == answer
