"""Attempts to get around the walls of ``process``, ``landlock`` and ``bubblewrap``."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tests.support import host

import stockade
from stockade.client import warden_process

pytestmark = pytest.mark.timing

ACCEPT = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
POLICY = stockade.Policy(accept=ACCEPT)
SYSTEM_PYTHON = "/usr/bin/python3"


def _run(source, **fields):
    policy = stockade.Policy(accept=ACCEPT, **fields)
    return stockade.run(source, policy=policy, backend="process", interpreter=SYSTEM_PYTHON)


def _open_up(folder: Path, mode: int = 0o755) -> None:
    for each in (folder, *folder.parents):
        if str(each).startswith("/tmp/") and os.access(each, os.W_OK):
            each.chmod(mode if each == folder else 0o755)


@pytest.mark.needs("bwrap", "gcc")
def test_bwrap_has_no_guest_environment(tmp_path):
    _open_up(tmp_path, 0o777)
    (tmp_path / "evil.c").write_text(
        f'#include <fcntl.h>\n__attribute__((constructor)) void f() {{ open("{tmp_path}/outside", O_CREAT, 0666); }}'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "evil.so", tmp_path / "evil.c"], check=True)
    preload = {"LD_PRELOAD": str(tmp_path / "evil.so")}
    subprocess.run(["true"], env=preload, check=True)
    assert (tmp_path / "outside").exists()  # unconfined it succeeds
    (tmp_path / "outside").unlink()
    policy = stockade.Policy(environment={"set": {"A": "1"}}, filesystem={"read": [tmp_path / "evil.so"]})
    result = stockade.run_command(["sh", "-c", "echo $A"], policy=policy, backend="bubblewrap", environment=preload)
    assert result.stdout == "1\n", result.stderr
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("backend", ["process", "bubblewrap", "native"])
def test_named_backend_held_to_isolation_and_trust(backend):
    with pytest.raises(stockade.PlanError, match="own_kernel"):
        stockade.run_command(["true"], policy=stockade.Policy(accept=ACCEPT, isolation="own_kernel"), backend=backend)
    with pytest.raises(stockade.PlanError, match="untrusted code"):
        stockade.Runner(POLICY, backend=backend, trust="untrusted")


@pytest.mark.parametrize("code", [
    "import socket; a, b = socket.socketpair(); a.bind('\\0stockade-squat')",
    "import os; os.getxattr('/etc/passwd', 'user.x')",
    "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); l.inotify_init() >= 0 or (_ for _ in ()).throw(OSError(1, 'x'))",
    "import fcntl, os; r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, 1)",
    "import fcntl, os; r, w = os.pipe(); fcntl.fcntl(r, 10, 9)",
    "import fcntl; fcntl.fcntl(open('/usr/bin/env'), 1024, 0)",
    "import fcntl; f = open('f', 'w'); fcntl.ioctl(f, 0x80086601, bytes(8))",
])  # fmt: skip
def test_calls_reaching_the_host_are_refused(code):
    result = _run(f"try:\n    {code}\n    print('done')\nexcept OSError: print('refused')")
    assert result.stdout == "refused\n", result.stderr


def test_run_folder_is_closed_to_others():
    result = _run("import os; print(oct(os.stat('..').st_mode)[-3:])")
    assert result.stdout.strip() == ("710" if os.geteuid() == 0 else "700")


def test_verdict_does_not_wait_for_removal():
    code = "import os, itertools\nfor n in itertools.count(): os.mkdir(str(n))"
    begin = time.monotonic()
    result = _run(code, limits={"wall_time": 2})
    assert result.limit is stockade.Guarantee.WALL_TIME
    assert result.usage.wall_seconds < 2.5
    assert time.monotonic() - begin < 4


@pytest.mark.parametrize("backend", ["native", "process"])
def test_killed_spawner_fails_only_its_run(backend):
    host.stop_warden()
    results = {}

    def run(name: str) -> None:
        results[name] = stockade.run_command(["sleep", "3"], policy=POLICY, backend=backend)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
        time.sleep(0.7)
    nurseries = [
        pid for pid in host.descendants(warden_process.current().pid) if _parent(pid) == warden_process.current().pid
    ]
    busy = [pid for pid in nurseries if any(host.name(each) == "sleep" for each in host.descendants(pid))]
    os.kill(busy[0], signal.SIGKILL)
    for thread in threads:
        thread.join(15)
    assert sorted(result.outcome for result in results.values()) == ["completed", "sandbox_failed"]
    assert stockade.run_command(["true"], policy=POLICY, backend=backend).ok


def test_link_planted_during_set_up_opens_nothing(tmp_path):
    """A thread swaps the path for a link to a hidden folder, over and over, while runs name it."""
    project, hidden = tmp_path / "project", tmp_path / "hidden"
    (project / "sub").mkdir(parents=True)
    hidden.mkdir()
    (hidden / "secret").write_text("s3cret")
    for folder in (project / "sub", project, hidden):
        _open_up(folder)
    stop = threading.Event()

    def swap() -> None:
        (project / "link").symlink_to(hidden)
        while not stop.is_set():
            for a, b in (("sub", "spare"), ("link", "sub"), ("sub", "link"), ("spare", "sub")):
                (project / a).rename(project / b)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = []
    try:
        for _ in range(40):
            try:
                policy = stockade.Policy(accept=ACCEPT, filesystem={"read": [project / "sub"]})
                result = stockade.run_command(["cat", str(hidden / "secret")], policy=policy, backend="process")
                seen.append(result.stdout)
            except stockade.JobError:
                continue
    finally:
        stop.set()
        thread.join()
    assert not any("s3cret" in each for each in seen)


@pytest.mark.needs("bwrap")
def test_bwrap_workspace_below_written_folder_refused(tmp_path):
    (tmp_path / "sub").mkdir()
    _open_up(tmp_path, 0o777)
    policy = stockade.Policy(filesystem={"write": [tmp_path], "workspace": tmp_path / "sub"}, accept={"disk": "absent"})
    with pytest.raises(stockade.JobError, match="lies in"):
        stockade.run_command(["true"], policy=policy, backend="bubblewrap")


def _parent(pid: int) -> int:
    fields = host.read(f"/proc/{pid}/stat").rpartition(") ")[2].split()
    return int(fields[1]) if fields else 0
