"""The facilities as text of 80 columns, and as a script that a shell may be given."""

from __future__ import annotations

import subprocess
from itertools import pairwise

from stockade.cli import doctor_text
from stockade.cli.facilities import Facility

ROWS = [
    Facility("pid namespace", True, "made as root", "hides processes", ""),
    Facility("user namespace", False, "clone: not permitted", "a long " * 30, "sudo sysctl -w user.max_user_namespaces=15000"),
    Facility("cgroup memory", False, "read-only \x1b[2J", "bounds", "sudo install -d $(touch /tmp/x) && echo $$; or sudo x"),
    Facility("cgroup namespace", True, "made as root", "hides groups", ""),
    Facility("language ruby", False, "none\nrm -rf /", "runs", "apt install ruby\nrm -rf /"),
    Facility("started by root", False, "uid 1", "a uid for each run", "sudo stockade ..."),
]  # fmt: skip


def test_every_facility_is_in_one_group() -> None:
    for row in ROWS:
        assert sum(bool(names.match(row.name)) for names in doctor_text._GROUPS.values()) == 1


def test_show_stays_within_80_columns(capsys) -> None:
    doctor_text.show(ROWS)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "  yes  pid namespace, cgroup namespace" in text


def test_script_runs_plain_commands_and_comments_out_the_rest() -> None:
    lines = doctor_text.script(ROWS).splitlines()
    commands = [line for line in lines if line and not line.startswith("#")]
    assert commands == ["set -eu", "sudo sysctl -w user.max_user_namespaces=15000"]
    subprocess.run(["sh", "-n"], input="\n".join(lines), text=True, check=True)
    assert any("started by root" in before and "sudo stockade" in line for before, line in pairwise(lines))
