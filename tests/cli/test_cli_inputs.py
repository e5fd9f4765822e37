"""A command sees the files below the current folder that its words name, and no other file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from stockade.cli.inputs import inputs


@pytest.fixture
def tree(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "big.txt").write_text("b\na\n")
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "sub" / "deep" / "x").write_text("x\n")
    (folder.parent / "secret").write_text("secret\n")
    (folder / "out").symlink_to(folder.parent / "secret")
    (folder / "outfolder").symlink_to(folder.parent)
    (folder / "in").symlink_to("sub/deep/x")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["sort", "big.txt"], ("big.txt",)),
        (["sort", "./big.txt", "big.txt", "sub//deep/x"], ("big.txt", "sub/deep/x")),
        (["ls", "sub/"], ("sub",)),
        (["cat", "sub/deep/x", "sub"], ("sub",)),
        (["cat", "in"], ("in",)),
        (["big.txt"], ()),
        (["./big.txt"], ("big.txt",)),
        (["cat", "out"], ()),
        (["cat", "outfolder/secret"], ()),
        (["cat", "outfolder/here/big.txt"], ("outfolder/here/big.txt",)),
        (["cat", "dangling", "loop", "fifo", "none", "", ".", "-", "--file=big.txt"], ()),
        (["cat", "../secret", "sub/../big.txt", "/etc/passwd"], ()),
        (["cat", "x" * 5000, "big.txt/"], ("big.txt",)),
    ],
)
def test_inputs_choose_words_that_name_files(tree, words, shown):
    assert inputs(words) == shown


def test_inputs_leave_out_a_socket(tree):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("s")
        assert inputs(["cat", "s"]) == ()


def test_command_finds_its_input_file(stockade, tree):
    assert stockade("run", "--", "sort", "big.txt").stdout == b"a\nb\n"
    assert stockade("run", "--", "cat", "sub/deep/x", "./in", "sub").stdout == b"x\nx\n"


def test_command_sees_no_other_file_of_folder(stockade, tree):
    done = stockade("run", "--", "ls", "-A", ".", "sub/deep/x")
    assert done.stdout.split() == [b"sub/deep/x", b".:", b"sub"]


@pytest.mark.parametrize("word", ["../secret", "out", "outfolder/secret"])
def test_command_sees_no_file_outside_folder(stockade, tree, word):
    done = stockade("run", "--", "cat", word)
    assert done.returncode == 1
    assert b"No such file" in done.stderr


def test_command_cannot_write_its_input(stockade, tree):
    done = stockade("run", "--", "sh", "-c", "echo no > $0", "big.txt")
    assert b"Read-only file system" in done.stderr or b"Permission denied" in done.stderr
    assert (tree / "big.txt").read_text() == "b\na\n"
