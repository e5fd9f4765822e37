"""The list of files that comes out of the sandbox of a wheel: whatever a broken unpacker sends, nothing goes astray."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from stockade.api.packages.frames import MOST_FILES, Files, Refused, starts_code
from stockade.api.packages.unpacker import HEADER

END = HEADER.pack(0, 0, 0)


def frame(name: str | bytes, content: bytes = b"", *, executable: int = 0) -> bytes:
    raw = name if isinstance(name, bytes) else name.encode()
    return HEADER.pack(len(raw), executable, len(content)) + raw + content


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "env").mkdir()
    return Files(tmp_path / "env", most_bytes=1000)


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_files_in_pieces_of_any_size_are_written(files: Files, tmp_path: Path, step: int) -> None:
    data = frame("a/b.py", b"x = 1\n") + frame("empty") + frame("tool", b"#!", executable=1) + END
    for at in range(0, len(data), step):
        files.take(data[at : at + step])
    files.finish()
    assert (tmp_path / "env/a/b.py").read_bytes() == b"x = 1\n"
    modes = {name: stat.S_IMODE((tmp_path / "env" / name).stat().st_mode) for name in files.written}
    assert modes == {"a/b.py": 0o444, "empty": 0o444, "tool": 0o555}


@pytest.mark.parametrize("data", [
    frame("../out"), frame("/out"), frame("a/../../out"), frame("a//out"), frame("./out"), frame("a\\out"), frame("out\n"),
    frame(b"\xff"), frame("a" * 1025), frame("a" * 256), frame("/".join("a" * 41)), frame("same") * 2,
    frame("a") + frame("a/b"), frame("big", bytes(1001)), HEADER.pack(1, 0, 1 << 63) + b"a", END + b"more",
])  # fmt: skip
def test_hostile_list_is_refused(files: Files, tmp_path: Path, data: bytes) -> None:
    with pytest.raises(Refused):
        files.take(data)
    files.close()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", [b"", frame("a", b"1"), frame("a", b"12")[:-1], HEADER.pack(0, 0, 0)[:-1]])
def test_incomplete_list_is_refused(files: Files, data: bytes) -> None:
    files.take(data)
    with pytest.raises(Refused):
        files.finish()
    files.close()


def test_link_in_the_way_is_not_followed(files: Files, tmp_path: Path) -> None:
    (tmp_path / "env" / "a").symlink_to(tmp_path / "out")
    with pytest.raises(Refused):
        files.take(frame("a", b"1"))
    assert not (tmp_path / "out").exists()


def test_too_many_files_are_refused(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stockade.api.packages.frames.MOST_FILES", 2)
    assert MOST_FILES == 100_000
    with pytest.raises(Refused):
        files.take(frame("a") + frame("b") + frame("c"))


@pytest.mark.parametrize(("name", "starts"), [
    ("lib/python3.11/site-packages/x.pth", True),
    ("lib64/python3.11/site-packages/x.start", True),
    ("lib/python3.11/site-packages/sitecustomize.cpython-311-x86_64-linux-gnu.so", True),
    ("lib/python3.11/site-packages/usercustomize/__init__.py", True),
    ("lib/python3.11/site-packages/__pycache__/sitecustomize.cpython-311.pyc", True),
    ("lib/python3.11/site-packages/package/sitecustomize.py", False),
    ("share/x.pth", False),
])  # fmt: skip
def test_starts_code_names_what_site_runs(name: str, starts: bool) -> None:
    assert starts_code(name) is starts
