"""A command sees the files below the current folder that its words name, and no other file."""

from __future__ import annotations

import os
import pty
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
        (["python3", "-B", "-m", "sub.tool", "big.txt"], ("big.txt", "sub")),
        (["python3", "-msub"], ("sub",)),
        (["python3", "big.txt", "-m", "sub2"], ("big.txt",)),
        (["cat", "-m", "big"], ()),
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


def test_script_sees_files_that_its_arguments_name(stockade, tree):
    (tree / "show.py").write_text("import sys; print(open(sys.argv[1]).read(), open('sub/deep/x').read())")
    assert stockade("run", "show.py", "big.txt", "sub").stdout == b"b\na\n x\n\n"
    assert stockade("run", "-c", "print(open('big.txt').read())", "big.txt").stdout == b"b\na\n\n"


def test_file_option_puts_copies_into_the_workspace(stockade, tree):
    (tree / "tool").write_text("#!/bin/sh\ncat 'two words'\n")
    (tree / "tool").chmod(0o755)
    done = stockade("run", "--file", "bin/tool=tool", "--file", f"two words={tree}/big.txt", "--", "./bin/tool")
    assert (done.stdout, done.stderr) == (b"b\na\n", b"")


def test_file_option_replaces_a_shown_file_by_its_copy(stockade, tree):
    done = stockade("run", "--file", "big.txt", "--", "sh", "-c", "echo c >> big.txt; cat big.txt", "big.txt")
    assert done.stdout == b"b\na\nc\n"
    assert (tree / "big.txt").read_text() == "b\na\n"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("none", "--file none: none: No such file or directory; name a file as NAME=PATH"),
        ("sub", "--file sub: sub is a folder; --workspace sub starts in it, and --archive takes it packed"),
        ("fifo", "--file fifo: fifo is not a regular file; pass its content on standard input: < fifo"),
        ("/etc/passwd", "a name in the workspace is relative, without '..'; write --file passwd=/etc/passwd"),
        ("../x=big.txt", "a name in the workspace is relative, without '..'"),
        (
            "sub/x=big.txt",
            "files: 'sub/x' collides with 'sub', which the run shows read-only because a word of it names that path",
        ),
    ],
)
def test_file_option_refuses_what_no_file_can_be(stockade, tree, value, said):
    done = stockade("run", "--file", value, "--", "ls", "sub")
    assert (done.returncode, said in done.stderr.decode()) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main.py", "import helper"),
        ("main.rb", "require_relative 'helper'"),
        ("main.js", "require('./helper')"),
        ("main.sh", "cat helper.sh"),
    ],
)
def test_hint_names_a_missing_file_beside_the_script(stockade, folder, name, text):
    (folder / "my app").mkdir()
    (folder / "my app" / name).write_text(text)
    helper = f"helper{Path(name).suffix}"
    (folder / "my app" / helper).write_text("")
    hint = f"--file '{helper}=my app/{helper}' copies it into the workspace; --workspace 'my app'"
    for word in (f"my app/{name}", f"./my app/{name}"):
        done = stockade("run", word)
        assert done.returncode != 0
        assert hint in done.stderr.decode()
    assert stockade("run", "--workspace", "my app", f"my app/{name}").returncode == 0
    assert stockade("run", "--file", f"{helper}=my app/{helper}", f"my app/{name}").returncode == 0


def test_hint_follows_the_words_of_a_command(stockade, folder):
    (folder / "app").mkdir()
    (folder / "app" / "main.py").write_text("import helper; print(helper.word)")
    (folder / "app" / "helper.py").write_text("word = 'found'")
    done = stockade("run", "--", "python3", "app/main.py")
    assert b"stockade: app/helper.py is on the host and was not shown; --workspace . starts the code" in done.stderr
    assert b"collides" in stockade("run", "--file", "app/helper.py", "--", "python3", "app/main.py").stderr
    assert stockade("run", "--workspace", ".", "--", "python3", "app/main.py").stdout == b"found\n"


def test_hint_for_an_absolute_path_shows_it_there(stockade, folder):
    (folder / "data.csv").write_text("1\n")
    code = f"print(open({str(folder / 'data.csv')!r}).read())"
    done = stockade("run", "-c", code)
    option = f"--read {folder / 'data.csv'}"
    assert f"was not shown; {option} shows it there, read-only" in done.stderr.decode()
    assert stockade("run", *option.split(), "-c", code).stdout == b"1\n\n"


def test_hint_of_a_module_beside_the_script_names_no_package(stockade, folder):
    (folder / "main.py").write_text("import helper")
    assert b"--with NAME" in stockade("run", "main.py").stderr
    (folder / "helper.py").write_text("")
    done = stockade("run", "main.py")
    assert b"--file helper.py" in done.stderr and b"--with" not in done.stderr


def test_hint_for_missing_input_names_interactive(stockade):
    told = b"standard input is a terminal; --interactive passes it on"
    master, slave = pty.openpty()
    try:
        assert told in stockade("run", "-c", "input()", stdin=slave).stderr
    finally:
        os.close(master)
        os.close(slave)
    assert told not in stockade("run", "-c", "input()").stderr


@pytest.mark.parametrize("name", [".env", "../secret", "out", "outfolder/secret", "/etc/shadow", "nowhere"])
def test_hint_never_names_what_the_guest_should_not_ask_for(stockade, tree, name):
    (tree / ".env").write_text("PASSWORD=x")
    done = stockade("run", "-c", f"raise FileNotFoundError(2, 'No such file or directory', {name!r})")
    assert b"No such file" in done.stderr and b"stockade:" not in done.stderr


def test_artifacts_leave_out_the_inputs(stockade, tree):
    words = ("--artifacts", "*.txt", "--artifacts-to", "results", "--", "sh", "-c", "sort $0 > sorted.txt", "big.txt")
    done = stockade("run", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [path.name for path in (tree / "results").iterdir()] == ["sorted.txt"]
