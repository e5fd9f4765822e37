"""A crash in a sandbox does not start the host's core handler. As the control, a crash outside starts it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import stockade

pytestmark = pytest.mark.needs("root")

PATTERN = Path("/proc/sys/kernel/core_pattern")
SYSTEM_PYTHON = "/usr/bin/python3"
ACCEPT = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
WAYS = {
    "cold": {"backend": "native", "warm": False},
    "warm": {"backend": "native", "warm": True},
    **{name: {"backend": name, "interpreter": SYSTEM_PYTHON} for name in ("bubblewrap", "oci", "firejail", "process")},
}
NEEDS = {
    "cold": ("native",),
    "warm": ("native",),
    "bubblewrap": ("bwrap",),
    "oci": ("crun",),
    "firejail": ("firejail",),
    "process": (),
}
CRASH = """
import ctypes, os, resource, sys

def zero_by_library():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def zero_by_call():
    library.syscall({"x86_64": 160, "aarch64": 164}[os.uname().machine], 4, ctypes.create_string_buffer(16))

def zero_with_old():
    resource.prlimit(0, resource.RLIMIT_CORE, (0, 0))

library = ctypes.CDLL(None)
for before in (zero_by_library, zero_by_call, zero_with_old, lambda: None):
    pid = os.fork()
    if pid == 0:
        library.prctl(15, b"@NAME@")  # PR_SET_NAME: the handler logs this name
        try:
            before()
        except OSError:
            pass
        ctypes.string_at(0)
    print(os.WTERMSIG(os.waitpid(pid, 0)[1]))
"""


@dataclass(frozen=True)
class Handler:
    """A core handler that logs the name of each program that crashes."""

    log: Path

    def runs_for(self, name: str) -> int:
        """Return how often the kernel started the handler for a program called ``name``."""
        return self.log.read_text(encoding="utf-8").split().count(name)

    def waits_for(self, name: str, count: int) -> bool:
        """Return whether the handler runs ``count`` times for ``name`` within ten seconds."""
        until = time.monotonic() + 10
        while self.runs_for(name) < count and time.monotonic() < until:
            time.sleep(0.01)
        return self.runs_for(name) == count


@pytest.fixture(scope="module")
def handler() -> Iterator[Handler]:
    """Make the kernel pipe cores to a handler while the tests run."""
    before = PATTERN.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="core-") as folder:
        program, log = Path(folder, "handler"), Path(folder, "log")
        log.touch()
        program.write_text(f'#!/bin/sh\necho "$1" >>{log}\nexec cat >/dev/null\n', encoding="utf-8")
        program.chmod(0o700)
        try:
            PATTERN.write_text(f"|{program} %e", encoding="utf-8")
        except OSError as error:
            pytest.skip(f"the core pattern cannot be set here: {error}")
        try:
            yield Handler(log)
        finally:
            PATTERN.write_text(before, encoding="utf-8")


@pytest.mark.parametrize("way", [pytest.param(name, marks=pytest.mark.needs(*NEEDS[name])) for name in WAYS])
def test_crash_with_piped_handler_starts_nothing(handler: Handler, way: str) -> None:
    policy = stockade.Policy(accept=ACCEPT)
    result = stockade.run(CRASH.replace("@NAME@", f"in-{way}"), policy=policy, **WAYS[way])
    assert result.stdout.split() == ["11"] * 4, result.stderr
    control = CRASH.replace("@NAME@", f"out-{way}")
    subprocess.run([sys.executable, "-c", control], check=True, stdout=subprocess.DEVNULL)
    assert handler.waits_for(f"out-{way}", 4), "the handler does not run for crashes outside"
    assert handler.runs_for(f"in-{way}") == 0
    assert "core" not in result.enforcement[stockade.Guarantee.PRIVILEGES].note


RECEIPT = "import stockade; print(stockade.plan().enforcement[stockade.Guarantee.PRIVILEGES].note)"


def _receipt(before: str = "") -> str:
    code = f"{before}\n{RECEIPT}"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@pytest.mark.usefixtures("handler")
def test_hard_limit_of_zero_is_on_the_receipt() -> None:
    for limit, expected in ((0, True), (1, False)):
        note = _receipt(f"import resource; resource.setrlimit(resource.RLIMIT_CORE, ({limit}, {limit}))")
        assert ("starts the host's core handler" in note) == expected


@pytest.mark.usefixtures("handler")
def test_handler_behind_socket_is_on_the_receipt() -> None:
    before = PATTERN.read_text(encoding="utf-8")
    PATTERN.write_text("@/nonexistent/stockade", encoding="utf-8")
    try:
        assert "connects to the host's core socket" in _receipt()
    finally:
        PATTERN.write_text(before, encoding="utf-8")
    assert "core" not in _receipt()
