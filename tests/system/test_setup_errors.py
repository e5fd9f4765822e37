"""If a sandbox cannot be set up, the error has step, call, errno and remedy on one short line."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.needs("native")
LONGEST = 700
BEFORE = "import resource, stockade, sys\n"
UNREADABLE = """
    import os, tempfile, threading, time
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    folder = tempfile.mkdtemp()
    policy = stockade.Policy(filesystem={"read": [folder]})
    busy = [threading.Thread(target=lambda: stockade.run_command(["sleep", "1.5"])) for _ in range(4)]
    told = []
    late = threading.Thread(target=lambda: told.append(stockade.run("#" + "x" * 5000, policy=policy)))
    stockade.plan(policy)
    for each in busy:
        each.start()
    time.sleep(0.7); late.start(); time.sleep(0.4)
    os.rmdir(folder)
    for each in [*busy, late]:
        each.join()
    print(told[0].outcome, told[0].error.message)
"""
NO_INTERPRETER = """
    sys._base_executable = "/bin/false"  # as in a program that has Python built in
    try:
        print(stockade.run("1").outcome)
    except stockade.StockadeError as error:
        print(type(error).__name__, error)
"""
NO_DESCRIPTOR = """
    import os
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    if late := int(sys.argv[1]):
        box = stockade.Runner()
    held = []
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        pass
    try:
        box.run("1") if late else stockade.run("1")
    except stockade.SetupError as error:
        for fd in held:
            os.close(fd)
        print("SetupError", error)
"""


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        pytest.param(
            UNREADABLE,
            ["sandbox_failed step bind ('/tmp/", "openat2 /tmp/", "No such file or directory (ENOENT); check that"],
            id="folder that goes while a run waits",
        ),
        pytest.param(
            NO_INTERPRETER,
            ["start the warden: /", "ended with exit status 1 before it answered"],
            id="no interpreter to start the warden",
        ),
        pytest.param(
            NO_DESCRIPTOR.replace("sys.argv[1]", "0"),
            ["import stockade's own modules: open /", "Too many open files (EMFILE); "],
            id="no descriptor for a module",
        ),
        pytest.param(
            NO_DESCRIPTOR.replace("sys.argv[1]", "1"),
            ["make a socket to the warden: _socket.socketpair: Too many open files (EMFILE); raise the limit"],
            id="no descriptor",
        ),
    ],
)
def test_setup_error_names_step_call_errno_remedy(script: str, parts: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + textwrap.dedent(script)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    said = done.stdout.strip()
    assert all(part in said for part in parts), said + done.stderr
    assert len(said) <= LONGEST and "\n" not in said, said
