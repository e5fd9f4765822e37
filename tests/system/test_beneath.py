"""Paths below a descriptor, on the real kernel: no name below the folder leads outside."""

import errno
import os

import pytest

from stockade.linux import beneath, renames
from stockade.workspace import extract


@pytest.fixture
def place(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "canary").write_text("secret")
    inside = tmp_path / "inside"
    (inside / "real").mkdir(parents=True)
    (inside / "real" / "file").write_text("mine")
    (inside / "link").symlink_to(tmp_path / "outside")
    (inside / "within").symlink_to("real")
    (inside / "leaf").symlink_to(tmp_path / "outside" / "canary")
    return inside


@pytest.fixture
def folder(place):
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("link/canary", errno.ELOOP),
        ("within/file", errno.ELOOP),
        ("leaf", errno.ELOOP),
        ("../outside/canary", errno.EXDEV),
        ("/etc/passwd", errno.EXDEV),
        ("real/../../outside/canary", errno.EXDEV),
    ],
)
def test_path_never_leads_out_or_over_link(folder, path, expected):
    with pytest.raises(OSError) as caught:
        beneath.open_at(folder, path, os.O_RDONLY)
    assert caught.value.errno == expected


def test_path_never_crosses_magic_link_or_mount():
    root = os.open("/", os.O_RDONLY)
    with pytest.raises(OSError):
        beneath.open_at(root, "proc/self/status", os.O_RDONLY)
    proc = os.open("/proc/self/fd", os.O_RDONLY)
    with pytest.raises(OSError):
        beneath.open_at(proc, "0", os.O_RDONLY)
    os.close(root)
    os.close(proc)


def test_checked_file_is_the_opened_file(place, folder):
    found = beneath.look(folder, "real/file")
    (place / "real" / "file").unlink()
    (place / "real" / "file").symlink_to(place.parent / "outside" / "canary")
    with os.fdopen(beneath.reopen(found, os.O_RDONLY)) as file:
        assert file.read() == "mine"
    os.close(found)


def test_link_can_be_examined_but_not_opened(folder):
    found = beneath.look(folder, "leaf")
    assert os.readlink("", dir_fd=found).endswith("canary")
    with pytest.raises(OSError):
        beneath.reopen(found, os.O_RDONLY)
    os.close(found)


def test_rename_never_replaces(place, folder):
    (place / "one").write_text("1")
    (place / "two").write_text("2")
    with pytest.raises(FileExistsError):
        renames.move(folder, "one", folder, "two")
    with pytest.raises(FileExistsError):
        renames.move(folder, "one", folder, "leaf")
    renames.exchange(folder, "one", folder, "two")
    assert ((place / "one").read_text(), (place / "two").read_text()) == ("2", "1")


@pytest.mark.parametrize("path", ["link/made", "leaf", "within/made", "real/file"])
def test_write_never_replaces_or_follows_link(place, folder, path):
    with pytest.raises(OSError):
        extract.land(folder, path, b"evil")
    assert sorted(entry.name for entry in (place.parent / "outside").iterdir()) == ["canary"]
    assert (place.parent / "outside" / "canary").read_text() == "secret"
    assert (place / "real" / "file").read_text() == "mine"


def test_written_file_has_plain_mode(place, folder):
    extract.land(folder, "new/deep/run", b"#!", 0o6755)
    extract.land(folder, "new/deep/data", b"x", 0o666)
    modes = [(place / "new" / "deep" / name).stat().st_mode & 0o7111 for name in ("run", "data")]
    assert modes == [0o111, 0]
