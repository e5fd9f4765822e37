"""Hostile files that a guest leaves in its workspace: each deceives a naive reader, but not the collector.

The control runs the same program without a sandbox, and a naive reader that expects no harm.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stockade
from stockade.linux import renames

SECRET = "CANARY-workspace"
NAIVE = """
import pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*")):
    if path.is_dir():
        continue
    sys.stdout.write(f"{path}: ")
    sys.stdout.buffer.write(path.read_bytes())
    sys.stdout.flush()
"""
LIMITS = {"file_size": "unlimited", "disk": "2GiB", "memory": "1GiB", "cpu_time": 60}
PROGRAMS = {
    "link": "os.symlink(CANARY, 'out.txt')",
    "link_by_proc": "os.symlink(f'/proc/self/root{CANARY}', 'out.txt')",
    "folder_link": "os.mkdir('sub'); os.symlink(os.path.dirname(CANARY), 'sub/out')",
    "hard_link": "os.link(CANARY, 'out.txt')",
    "fifo": "os.mkfifo('out.txt')",
    "sparse": "open('out.txt', 'w').truncate(1 << 42)",
    "socket": "s = socket.socket(socket.AF_UNIX); s.bind('out.txt')",
    "deep": "for _ in range(2000):\n    os.mkdir('d'); os.chdir('d')\nopen('out.txt', 'w').close()",
    "names": "open(b'out\\xff\\xfe.txt', 'w').close(); open('out\\x1b]0;x\\x07\\n.txt', 'w').close()",
    "device": "os.mknod('out.txt', 0o666 | stat.S_IFCHR, os.makedev(1, 5))",
}
FALLS = {
    "link": "secret",
    "link_by_proc": "secret",
    "folder_link": "secret",
    "hard_link": "secret",
    "fifo": "hangs",
    "sparse": "dies",
    "socket": "dies",
    "deep": "dies",
    "names": "dies",
    "device": "hangs",
}
"""What happens to the naive reader."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    for parent in (tmp_path, *tmp_path.parents):
        if str(parent).startswith("/tmp/") and parent.stat().st_uid == os.geteuid():
            parent.chmod(0o755)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text(SECRET)
    (outside / "canary").chmod(0o666)
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path / "work"], check=False)  # nested deeper than shutil can remove


def program(name: str, place: Path) -> str:
    canary = str(place / "outside" / "canary")
    return f"import os, socket, stat\nCANARY = {canary!r}\n{PROGRAMS[name]}\n"


def naive(folder: Path) -> str:
    """Return what happens to a reader that opens every file."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
    try:
        done = subprocess.run(
            [sys.executable, "-c", limit + NAIVE, folder], capture_output=True, timeout=3, check=False,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "hangs"
    if SECRET.encode() in done.stdout:
        return "secret"
    return "dies" if done.returncode else "survives"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(*["root"] * (name == "device"))) for name in PROGRAMS]
)
@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("native", marks=pytest.mark.needs("native")),
        pytest.param("process"),
        pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
        pytest.param("oci", marks=pytest.mark.needs("crun")),
    ],
)
def test_hostile_files_do_not_harm_collector(name: str, backend: str, place: Path) -> None:
    work = place / "work"
    work.mkdir()
    control = subprocess.run([sys.executable, "-c", program(name, place)], cwd=work, check=False, capture_output=True)
    assert control.returncode == 0, control.stderr
    if name in ("link", "link_by_proc", "folder_link", "hard_link", "fifo", "sparse", "socket", "deep", "names"):
        assert naive_falls(name, work), f"the naive reader {naive(work)}"

    begin = time.monotonic()
    result = stockade.run(
        program(name, place),
        policy=stockade.Policy(limits=LIMITS, accept=dict.fromkeys(stockade.Guarantee, "absent")),
        artifacts=["**"],
        backend=backend,
        interpreter=None if backend == "native" else "/usr/bin/python3",
    )
    assert time.monotonic() - begin < 10
    assert result.outcome in ("completed", "failed"), result
    assert result.artifacts_error is None
    assert SECRET.encode() not in b"".join(result.artifacts.values())
    assert all(not path.startswith("/") and ".." not in path for path in result.artifacts)
    assert not {"out.txt", "sub/out/canary"} & set(result.artifacts)
    if result.ok:
        assert result.artifacts_refused, result


def naive_falls(name: str, work: Path) -> bool:
    if name == "folder_link":  # only a pattern with a folder in it follows the link
        return any(SECRET in path.read_text() for path in work.glob("sub/out/*"))
    return naive(work) == FALLS[name]


@pytest.mark.needs("native")
def test_too_many_names_end_the_collection() -> None:
    code = "for number in range(205_000): open(f'{number}.txt', 'w').close()"
    policy = stockade.Policy(limits=LIMITS, accept={"memory": "supervisor"})
    result = stockade.run(code, policy=policy, artifacts=["*.txt"])
    assert result.ok, result
    assert "more than 200000 names" in (result.artifacts_error or "")
    assert not result.artifacts


@pytest.mark.needs("native")
def test_folder_swapped_with_link_leads_nowhere(place: Path) -> None:
    """The guest writes to the host's folder, so another process can swap names in it during the collection."""
    work = place / "work"
    (work / "out").mkdir(parents=True)
    (work / "out" / "canary").write_text("mine")
    (work / "link").symlink_to(place / "outside")
    for path in (work, work / "out"):
        path.chmod(0o777)
    stop = threading.Event()

    def swap() -> None:
        folder = os.open(work, os.O_RDONLY)
        while not stop.is_set():
            renames.exchange(folder, "out", folder, "link")
        os.close(folder)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and SECRET not in (seen := (work / "out" / "canary").read_text()):
            pass
        assert SECRET in seen, "the naive reader was never led astray"
        policy = stockade.Policy(
            filesystem={"workspace": work, "access": "write", "hidden": ["nothing"]}, accept={"disk": "absent"}
        )
        with stockade.Runner(policy, backend="native") as box:
            for _ in range(20):
                result = box.run("1", artifacts=["**"])
                assert SECRET.encode() not in b"".join(result.artifacts.values())
    finally:
        stop.set()
        swapper.join()


@pytest.mark.needs("native")
def test_hard_link_to_file_outside_is_refused(place: Path) -> None:
    """The hard link is in the folder before the run."""
    work = place / "work"
    work.mkdir()
    work.chmod(0o777)
    os.link(place / "outside" / "canary", work / "out.txt")
    assert SECRET in (work / "out.txt").read_text()
    policy = stockade.Policy(filesystem={"workspace": work, "access": "write"}, accept={"disk": "absent"})
    result = stockade.run("1", policy=policy, artifacts=["*"], backend="native")
    assert not result.artifacts
    assert "hard link" in result.artifacts_refused[0].reason


@pytest.mark.parametrize("access", ["overlay", "copy"])
@pytest.mark.needs("native")
def test_commit_follows_no_link_planted_before(place: Path, access: str) -> None:
    project = place / "work"
    (project / "sub").mkdir(parents=True)
    (project / "sub" / "canary").write_text("mine")
    policy = stockade.Policy(filesystem={"workspace": project, "access": access})
    result = stockade.run("open('sub/canary', 'w').write('guest'); open('new', 'w')", policy=policy)
    assert result.ok, result
    (project / "sub").rename(project / "was")
    (project / "sub").symlink_to(place / "outside")
    (project / "new").symlink_to(place / "outside" / "made")

    with pytest.raises(stockade.CommitError) as caught:
        result.changes.commit()
    assert {item.path for item in caught.value.conflicts} == {"new", "sub/canary"}
    assert (place / "outside" / "canary").read_text() == SECRET
    assert not (place / "outside" / "made").exists()
    for change in result.changes:  # the control: a writer that uses paths follows the link out
        (project / change.path).write_bytes(change.content or b"")
    assert (place / "outside" / "canary").read_text() == "guest" and (place / "outside" / "made").exists()


@pytest.mark.parametrize("access", ["overlay", "copy"])
@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "sub/../../outside", "sub/..", ""])
@pytest.mark.needs("native")
def test_commit_refuses_link_that_leads_out(place: Path, access: str, target: str) -> None:
    project = place / "work"
    (project / "sub").mkdir(parents=True)
    policy = stockade.Policy(filesystem={"workspace": project, "access": access})
    code = f"import os; os.symlink({target or '/'!r}, 'planted')"
    result = stockade.run(code, policy=policy)
    with pytest.raises(stockade.CommitError, match="leads out"):
        result.changes.commit()
    assert sorted(path.name for path in project.iterdir()) == ["sub"]


@pytest.mark.needs("native", "root")
def test_collector_never_reads_as_root(place: Path) -> None:
    """A guest can name a file of root's but not read it. The collector must not read it for the guest."""
    work = place / "work"
    work.mkdir()
    work.chmod(0o777)
    (work / "roots").write_text(SECRET)
    (work / "roots").chmod(0o600)
    policy = stockade.Policy(filesystem={"workspace": work, "access": "write"}, accept={"disk": "absent"})
    result = stockade.run("1", policy=policy, artifacts=["*"], backend="native")
    assert not result.artifacts
    assert "Permission denied" in result.artifacts_refused[0].reason
