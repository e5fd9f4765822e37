"""The unit for systemd starts a command that exists, and protects the host without what the sandboxes need."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import click

from stockade.cli.serve import serve

UNIT = (files("stockade.service") / "stockade.service").read_text()
BREAKS = {
    "PrivateUsers", "RestrictNamespaces", "SystemCallFilter", "ProtectKernelTunables", "ProtectKernelLogs",
    "ProtectControlGroups", "ProtectProc", "ProcSubset", "MemoryDenyWriteExecute",
}  # fmt: skip
"""Settings that take namespaces, /proc or machine code from the sandboxes."""


def _settings() -> dict[str, str]:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT)
    return dict(parser["Service"])


def test_unit_starts_a_valid_command_as_ordinary_user() -> None:
    found = _settings()
    program, command, *words = shlex.split(found["ExecStart"])
    assert Path(program).name == "stockade" and command == "serve"
    with click.Context(serve) as context:
        serve.parse_args(context, words)
    assert context.params["host"] == "127.0.0.1"
    assert context.params["data"] == f"/var/lib/{found['StateDirectory']}"
    assert found["User"] not in ("", "root", "nobody")


def test_unit_protects_host_and_lets_sandboxes_work() -> None:
    found = _settings()
    protected = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes"}
    assert found.items() >= {**protected, "CapabilityBoundingSet": "", "KillMode": "mixed"}.items()
    assert {"memory", "pids", "cpu"} <= set(found["Delegate"].split())
    assert not BREAKS & set(found)
    assert all(f"{name}=" in UNIT for name in BREAKS)  # the comment warns of each


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        return  # the tests above read the same file
    path = tmp_path / "stockade.service"
    path.write_text(UNIT.replace("/opt/stockade/bin/stockade", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    about = [line for line in done.stderr.splitlines() if path.name in line]
    assert (done.returncode, about) == (0, [])
