"""``stockade attack``: its output and exit status, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.support import host

COMMAND = [sys.executable, "-m", "stockade", "attack"]
QUICK = ["--only", "network/udp", "--only", "verdict/exit_124"]


def attack(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=110, **options)


def test_attack_all_refused_prints_table_and_exits_0() -> None:
    done = attack("--backend", "native", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["network", "kernel", "1/1"] in rows
    assert ["verdict", "supervisor", "1/1"] in rows
    assert done.stdout.strip().endswith("2 trials: 2 refused that succeed unconfined.")


def test_attack_two_backends_have_a_column_each() -> None:
    done = attack("--backend", "native", "--backend", "landlock", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ["guarantee", "native", "landlock"] in [line.split() for line in done.stdout.splitlines()]


def test_attack_without_controls_marks_unproved() -> None:
    done = attack("--no-controls", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1/1 (1 unproved)" in done.stdout
    assert "No control was run" in done.stdout


def test_attack_writes_json_and_junit(tmp_path: Path) -> None:
    file = tmp_path / "trials.xml"
    done = attack("--json", "--junit", str(file), *QUICK)
    told = json.loads(done.stdout)
    assert told["held"] is True and told["left"] == []
    assert {trial["attack"]: trial["verdict"] for trial in told["trials"]} == {
        "network/udp": "refused",
        "verdict/exit_124": "refused",
    }
    suite = ElementTree.parse(file).getroot()[0]
    assert suite.attrib["tests"] == "2" and suite.attrib["failures"] == "0"


def test_attack_none_ran_exits_1() -> None:
    other = "privileges/setuid_root" if os.geteuid() == 0 else "privileges/bpf"
    done = attack("--only", other)
    assert done.returncode == 1
    assert f"Not run: {other}\n    not started by" in done.stdout


def test_attack_on_opened_network_is_admitted(tmp_path: Path) -> None:
    """The policy opens the host's network, and the receipt says so."""
    file = tmp_path / "policy.toml"
    file.write_text('network = "host"\n')
    done = attack("--backend", "native", "--policy", str(file), *QUICK)
    assert done.returncode == 0
    assert "Not held, as the receipt says (stockade plan): native network/udp" in done.stdout


def test_attack_list_and_show_describe_attacks() -> None:
    assert "network/udp" in attack("--list", "--only", "network").stdout
    shown = attack("--show", "filesystem_read/leaked_folder").stdout
    assert "CVE-2024-21626" in shown and "from kit import" in shown


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--only", "netwrk"], "no guarantee and no attack has this name"),
        (["--show", "loop2"], "no guarantee and no attack has this name"),
        (["--show", "network"], "this names"),
        (["--all", "--backend", "native"], "--all attacks every backend"),
        (["--jobs", "0"], "0 is not in the range"),
    ],
)
def test_attack_bad_usage_exits_2(words: list[str], complaint: str) -> None:
    done = attack(*words)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_attack_unknown_backend_exits_125() -> None:
    done = attack("--backend", "nonsense")
    assert done.returncode == 125
    assert "there is no backend 'nonsense'" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_attack_interrupted_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    process = subprocess.Popen(
        [*COMMAND, "--only", "wall_time/thread_outlives_main", "--only", "memory", "--only", "no_survivors"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert host.eventually(lambda: list(tmp_path.iterdir()), 30), "nothing was begun"
    time.sleep(0.7)
    below = host.descendants(process.pid)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "interrupted after" in err
    assert list(tmp_path.iterdir()) == []
    assert host.eventually(lambda: not [pid for pid in below if host.state(pid) not in {"", "Z", "X"}], 5)


def test_attack_leaves_no_folder_behind(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    attack(*QUICK, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
