"""Words of a command that name files below the current folder are shown to it; nothing else is."""

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
def test_which_words_are_shown(tree, words, shown):
    assert inputs(words) == shown


def test_a_socket_is_not_shown(tree):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("s")
        assert inputs(["cat", "s"]) == ()


def test_sort_finds_its_file(stockade, tree):
    assert stockade("run", "--", "sort", "big.txt").stdout == b"a\nb\n"
    assert stockade("run", "--", "cat", "sub/deep/x", "./in", "sub").stdout == b"x\nx\n"


def test_nothing_else_of_the_folder_is_there(stockade, tree):
    done = stockade("run", "--", "ls", "-A", ".", "sub/deep/x")
    assert done.stdout.split() == [b"sub/deep/x", b".:", b"sub"]


@pytest.mark.parametrize("word", ["../secret", "out", "outfolder/secret"])
def test_what_lies_outside_is_not_shown(stockade, tree, word):
    done = stockade("run", "--", "cat", word)
    assert done.returncode == 1
    assert b"No such file" in done.stderr


def test_what_is_shown_cannot_be_written(stockade, tree):
    done = stockade("run", "--", "sh", "-c", "echo no > $0", "big.txt")
    assert b"Read-only file system" in done.stderr or b"Permission denied" in done.stderr
    assert (tree / "big.txt").read_text() == "b\na\n"
