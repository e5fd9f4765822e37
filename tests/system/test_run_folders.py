"""A run's folders on the host are removed whatever a guest did to them, and reclaimed if nobody removed them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stockade
from stockade.linux import places

pytestmark = pytest.mark.timing

ACCEPT = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
POLICY = stockade.Policy(accept=ACCEPT)
HOSTILE = """
import os
os.chdir(os.environ["TMPDIR"])
deep = 0
try:
    for deep in range(3000):
        os.mkdir("d"); os.chdir("d")
except OSError:
    pass
os.chdir(os.environ["TMPDIR"])
for name in (b"\\xff\\xfe", b"new\\nline", b"-rf", b".1", b".2", b".3"):
    os.mkdir(name); open(name + b"/file", "w").close()
os.symlink("/etc", "link"); os.symlink("/nowhere", ".4"); os.mkfifo("fifo")
os.mkdir("closed"); os.mkdir("closed/inner"); os.umask(0o777); os.mkdir("shut")
for n in range(2000): os.close(os.open(f"f{n}", os.O_CREAT))
print(deep > 1000)
"""

FILLS = "const a = []; while (true) a.push(new Array(1000).fill(Math.random()))"


def _left() -> list[Path]:
    return list(Path(places.FOLDER).glob(f"{places.PREFIX}*-{os.getpid()}-*"))


def test_hostile_folder_is_removed() -> None:
    result = stockade.run(HOSTILE, policy=POLICY, backend="process", interpreter="/usr/bin/python3")
    assert result.stdout == "True\n", result.stderr
    deadline = time.monotonic() + 10
    while _left() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _left() == []
    assert Path("/etc/passwd").exists()


@pytest.mark.needs("node", "cgroup-memory")
def test_reaper_survives_guest_using_all_memory() -> None:
    """Node takes long to die and holds all memory meanwhile; the reaper must not need more."""
    policy = stockade.Policy(accept=ACCEPT, limits={"memory": "128MiB", "wall_time": 30, "cpu_time": 30})
    for _ in range(12):
        result = stockade.run(FILLS, policy=policy, backend="process", language="javascript")
        assert (result.outcome, result.limit) == (stockade.Outcome.LIMIT_EXCEEDED, "memory")
    deadline = time.monotonic() + 10
    while _left() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _left() == []


def test_removal_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("x")
    folder = tmp_path / "run"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "link").symlink_to(tmp_path / "outside")
    (folder / "link").symlink_to(tmp_path / "outside", target_is_directory=True)
    assert places.remove(str(folder))
    assert not folder.exists()
    assert (tmp_path / "outside" / "kept").exists()
    (tmp_path / "door").symlink_to(tmp_path / "outside", target_is_directory=True)
    assert not places.remove(str(tmp_path / "door"))
    assert places.remove(str(tmp_path / "never"))


def test_folders_of_killed_caller_are_reclaimed(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    pids = Path("/proc/self/ns/pid").stat().st_ino
    stale = tmp_path / f"{places.PREFIX}{pids}-{int(dead.stdout)}-00ff"
    alive = tmp_path / f"{places.PREFIX}{pids}-{os.getpid()}-00ff"
    elsewhere = tmp_path / f"{places.PREFIX}1-{int(dead.stdout)}-00ff"
    for folder in (stale, alive, elsewhere, tmp_path / "other"):
        (folder / "x").mkdir(parents=True)
    assert places.reclaim(str(tmp_path), os.getuid()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([alive.name, elsewhere.name, "other"])


def test_killed_reaper_leaves_no_process() -> None:
    mark = "86396.25"
    box = stockade.Runner(POLICY, backend="process")
    import threading

    thread = threading.Thread(target=box.run_command, args=(["/bin/sh", "-c", f"sleep {mark} & sleep {mark}"],))
    thread.start()
    deadline = time.monotonic() + 10
    while len(_sleepers(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    shell = int(Path(f"/proc/{_sleepers(mark)[0]}/stat").read_text().rpartition(") ")[2].split()[1])
    keeper = int(Path(f"/proc/{shell}/stat").read_text().rpartition(") ")[2].split()[1])
    os.kill(keeper, 9)
    thread.join(10)
    assert not thread.is_alive()
    deadline = time.monotonic() + 2
    while _sleepers(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _sleepers(mark) == []
    for path in _left():  # nobody was left to remove it; the next warden would
        places.remove(str(path))


def _sleepers(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", mark.encode()]:
                found.append(int(entry.name))
        except OSError:
            continue
    return found
