"""Projects that are difficult to scan before a run: links with hidden names, files that come and go, mounts."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stockade
from stockade.workspace import scan

pytestmark = pytest.mark.timing

HIDDEN = stockade.Policy().filesystem.hidden
SECRET = "CANARY-survey"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/") and folder.owner() == tmp_path.owner():
            folder.chmod(0o755)
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def linked(project: Path) -> Path:
    """Return a project with two targets of hidden links: the scan meets one before its link, the other after it."""
    for folder in ("a", "z"):
        (project / folder / "inner").mkdir(parents=True)
        (project / folder / "inner" / "secret").write_text(SECRET)
        (project / folder / "open").write_text("open")
    (project / ".env").symlink_to("a/inner/secret")
    (project / "a" / ".envrc").symlink_to("../z/inner")
    return project


@pytest.mark.parametrize("access", ["overlay", "copy"])
def test_link_target_hidden_is_not_compared(linked: Path, access: str) -> None:
    found = scan.scan_project(str(linked), access, HIDDEN, ())
    assert dict(found.hidden) == {"a/inner/secret": False, "z/inner": True}
    assert set(found.entries) == {"a", "a/inner", "a/open", "z", "z/open"}


@pytest.mark.parametrize("access", ["overlay", "copy"])
@pytest.mark.needs("native")
def test_link_target_hidden_is_in_no_changes(linked: Path, access: str) -> None:
    policy = stockade.Policy(filesystem={"workspace": linked, "access": access})
    code = (
        "import os, shutil\nprint(os.path.exists('a/inner/secret') and open('a/inner/secret').read())\n"
        "shutil.rmtree('a', ignore_errors=True); shutil.rmtree('z', ignore_errors=True)\n"
        "os.makedirs('a', exist_ok=True)"
    )
    result = stockade.run(code, policy=policy, backend="native")
    assert result.ok and SECRET not in result.stdout, result
    assert {"a/open", "z/open"} <= {change.path for change in result.changes}
    assert not [change for change in result.changes if "secret" in change.path or "z/inner" in change.path]
    assert SECRET not in result.changes.diff()


@pytest.mark.parametrize("access", ["read", "overlay", "copy"])
@pytest.mark.needs("native")
def test_file_that_comes_and_goes_fails_no_run(project: Path, access: str) -> None:
    for number in range(200):
        (project / f"stays-{number}").touch()
    stop = threading.Event()

    def flicker() -> None:
        while not stop.is_set():
            for name in ("flicker-1", ".env", "flicker-2"):
                (project / name).write_text("x")
                (project / name).unlink()

    thread = threading.Thread(target=flicker)
    thread.start()
    policy = stockade.Policy(filesystem={"workspace": project, "access": access})
    try:
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            scan.scan_project(str(project), access, HIDDEN, ())
        for _ in range(5):
            result = stockade.run("import os; print(len([n for n in os.listdir() if 'stays' in n]))", policy=policy)
            assert result.stdout == "200\n", result
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def mounted(project: Path) -> Iterator[Path]:
    """Return a project with a file system mounted in it."""
    place = project / "mounted"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True)
    try:
        (place / "plain").write_text("plain")
        (place / ".env").write_text(SECRET)
        yield project
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("backend", ["native", "process", "bubblewrap", "oci"])
@pytest.mark.needs("native", "bwrap", "crun", "root")
def test_copy_leaves_out_mounts(mounted: Path, backend: str) -> None:
    (mounted / "file").write_text("file")
    policy = stockade.Policy(
        filesystem={"workspace": mounted, "access": "copy"}, accept=dict.fromkeys(stockade.Guarantee, "absent")
    )
    code = "import os\nfor top, _, names in os.walk('.'):\n    for name in names: print(open(f'{top}/{name}').read())"
    own = None if backend == "native" else "/usr/bin/python3"
    result = stockade.run(code, policy=policy, backend=backend, interpreter=own)
    assert (result.stdout, len(result.changes)) == ("file\n", 0), result


@pytest.mark.needs("native", "root")
def test_overlay_leaves_out_mounts(mounted: Path) -> None:
    policy = stockade.Policy(filesystem={"workspace": mounted, "access": "overlay"})
    result = stockade.run("import os; print(os.listdir('mounted')); os.utime('mounted')", policy=policy)
    assert (result.stdout, len(result.changes)) == ("[]\n", 0), result
