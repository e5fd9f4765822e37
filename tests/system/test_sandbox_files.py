"""The files of a living sandbox from outside: within the guest's view and limits, whatever the guest plants."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import stockade
from stockade import FileRefused, Files, JobError, Sandbox

MIB = 1 << 20


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.create(policy={"limits": {"disk": "32MiB"}}) as made:
        yield made


@pytest.fixture
def files(sandbox: Sandbox) -> Files:
    sandbox.run_command(["sh", "-c", "rm -rf ./* ./.[!.]*"]).check()
    return sandbox.files


def test_files_are_those_that_the_guest_sees(sandbox: Sandbox, files: Files) -> None:
    files.write("a/b/data.bin", bytes(range(256)) * 5000)
    assert files.read_bytes("a/b/data.bin") == bytes(range(256)) * 5000
    assert sandbox.run_command(["sh", "-c", "wc -c < a/b/data.bin; echo é > note.txt"]).stdout == "1280000\n"
    assert files.read_text("note.txt") == "é\n"
    files.write("/tmp/elsewhere", "absolute")
    assert sandbox.run_command(["cat", "/tmp/elsewhere"]).stdout == "absolute"


def test_many_files_are_written_by_path(files: Files) -> None:
    files.write_many({"some/one": "text", "/tmp/two": b"\0\1"})
    assert (files.read_text("some/one"), files.read_bytes("/tmp/two")) == ("text", b"\0\1")
    with pytest.raises(NotADirectoryError):
        files.write_many({"first": "1", "some/one/below": "2", "last": "3"})
    assert files.exists("first")
    assert not files.exists("last")
    with pytest.raises(JobError, match="mapping"):
        files.write_many(["path"])  # type: ignore[arg-type]


def test_files_listing_names_kinds_and_sizes(sandbox: Sandbox, files: Files) -> None:
    files.make_dir("one/two")
    files.write("one/file", "123")
    sandbox.run_command(["sh", "-c", "ln -s /nowhere one/link; mkfifo one/pipe"]).check()
    found = {each.path: (each.kind, each.size) for each in files.list("one")}
    assert found["file"] == ("file", 3)
    assert [found[name][0] for name in ("two", "link", "pipe")] == ["directory", "link", "other"]
    assert files.stat("one/file").mode == 0o644
    assert files.stat("one/link", follow_links=False).kind == "link"
    assert (files.exists("one/link"), files.exists("one/file/x"), files.exists("one")) == (False, False, True)


def test_files_rename_and_remove(files: Files) -> None:
    files.write("old/file", "text")
    files.rename("old/file", "new")
    assert files.read_text("new") == "text"
    with pytest.raises(FileNotFoundError, match="old/file"):
        files.read_bytes("old/file")
    files.write("old/other", "")
    with pytest.raises(OSError, match="not empty"):
        files.remove("old")
    files.remove("old", recursive=True)
    files.remove("new")
    assert files.list() == ()


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/etc/shadow", FileNotFoundError),
        ("/root", OSError),
        ("/proc/1/environ", PermissionError),
        (".", IsADirectoryError),
    ],
)
def test_files_outside_the_view_of_the_guest_raise_its_error(files: Files, path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        files.read_bytes(path)


def test_files_write_respects_a_missing_permission(sandbox: Sandbox, files: Files) -> None:
    files.write("fixed", "old")
    sandbox.run_command(["chmod", "a-w", "fixed"]).check()
    with pytest.raises(PermissionError, match="fixed"):
        files.write("fixed", "new")
    assert files.read_text("fixed") == "old"


def test_files_write_below_a_file_names_the_reason(files: Files) -> None:
    files.write("file", "text")
    for below in ("file/child", "file/folder/child"):
        with pytest.raises(NotADirectoryError, match="child"):
            files.write(below, "")
    assert files.read_text("file") == "text"


def test_files_write_keeps_the_mode_and_follows_a_link(sandbox: Sandbox, files: Files) -> None:
    sandbox.run_command(["sh", "-c", "echo old > script; chmod 755 script; ln -s script alias"]).check()
    files.write("alias", "#!/bin/sh\necho new\n")
    assert sandbox.run_command(["./script"]).stdout == "new\n"
    assert files.stat("alias", follow_links=False).kind == "link"


def test_files_full_disk_raises_and_keeps_what_was_there(files: Files) -> None:
    files.write("kept", "before")
    with pytest.raises(OSError, match="No space left"):
        files.write("kept", bytes(40 * MIB))
    assert files.read_text("kept") == "before"
    assert [each.path for each in files.list()] == ["kept"]


def test_files_that_are_no_regular_files_are_refused_at_once(sandbox: Sandbox, files: Files) -> None:
    sandbox.run_command(["sh", "-c", "mkfifo pipe; ln -s pipe link; ln -s /dev/zero zero; ln -s loop loop"]).check()
    begin = time.monotonic()
    for path in ("pipe", "link", "/dev/zero", "zero"):
        with pytest.raises(FileRefused, match="not a regular file"):
            files.read_bytes(path)
        if path != "/dev/zero":
            with pytest.raises(FileRefused, match="not a regular file"):
                files.write(path, "x")
    with pytest.raises(OSError, match="symbolic links"):
        files.read_bytes("loop")
    assert time.monotonic() - begin < 5


def test_files_sizes_and_counts_are_bounded(sandbox: Sandbox, files: Files) -> None:
    sandbox.run_command(
        ["sh", "-c", "head -c 3000000 /dev/zero > large; mkdir many; cd many; seq 2000 | xargs touch"]
    ).check()
    with pytest.raises(FileRefused, match="longer than 1000000 bytes"):
        files.read_bytes("large", max_bytes=1_000_000)
    with pytest.raises(FileRefused, match="more than 500 entries"):
        files.list("many", max_entries=500)
    assert len(files.list("many")) == 2000
    with pytest.raises(JobError, match="at most 4095 bytes"):
        files.exists("x" * 5000)
    for path in ("", "a\0b"):
        with pytest.raises(JobError, match="path"):
            files.read_bytes(path)


SWAP = """
import os
os.makedirs("real", exist_ok=True)
open("real/name", "w").write("mine")
while True:
    for target in ("/etc", "real", "/proc/self"):
        try:
            os.symlink(target, "next")
            os.rename("next", "swap")
        except OSError:
            pass
"""


def test_files_under_names_that_the_guest_swaps_stay_inside(sandbox: Sandbox, files: Files) -> None:
    with sandbox.start_command(["python3", "-c", SWAP]):
        end = time.monotonic() + 1
        outcomes = set()
        while time.monotonic() < end:
            try:
                files.write("swap/name", "ours")
                outcomes.add("written")
            except OSError as error:
                outcomes.add(type(error).__name__)
            try:
                assert files.read_text("swap/name") in ("mine", "ours")
            except OSError as error:
                outcomes.add(type(error).__name__)
    assert files.exists("real/name")
    assert outcomes & {"written", "PermissionError", "FileNotFoundError", "OSError"}


def test_files_survive_the_end_of_their_agent(sandbox: Sandbox, files: Files) -> None:
    files.write("kept", "text")
    sandbox.run_command(["sh", "-c", "for p in $(pgrep -f 'def take'); do kill -9 $p; done"])
    with pytest.raises(stockade.SessionEnded):
        files.read_text("kept")
    assert files.read_text("kept") == "text"


def test_files_of_several_threads_take_turns(files: Files) -> None:
    def work(number: int) -> None:
        for _ in range(20):
            files.write(f"file{number}", str(number) * 1000)
            assert files.read_text(f"file{number}") == str(number) * 1000

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(files.list()) == 4


def test_files_of_a_closed_sandbox_are_gone() -> None:
    with Sandbox.create() as made:
        made.files.write("a", "b")
    with pytest.raises(stockade.StockadeError):
        made.files.read_text("a")
