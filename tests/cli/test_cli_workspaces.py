"""Files in and out on the command line."""

from __future__ import annotations

import io
import json
import zipfile

import pytest


@pytest.fixture
def project(folder):
    place = folder / "project"
    place.mkdir()
    (place / "a.txt").write_text("one\n")
    (place / ".env").write_text("SECRET\n")
    return place


def test_run_diff_is_shown_nothing_is_written(stockade, project):
    done = stockade(
        "run", "--workspace", "project", "--diff", "--", "sh", "-c", "echo two >> a.txt; cat .env; echo out"
    )
    assert (done.returncode, done.stdout) == (0, b"out\n"), done
    assert b"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,2 @@\n one\n+two\n" in done.stderr
    assert b"discarded: 1 change (a.txt)" in done.stderr and b"SECRET" not in done.stderr
    assert (project / "a.txt").read_text() == "one\n"


def test_run_commit_after_completed_run(stockade, project):
    failed = stockade("run", "--workspace", "project", "--commit", "--", "sh", "-c", "echo two >> a.txt; exit 3")
    assert failed.returncode == 3 and b"discarded" in failed.stderr
    assert (project / "a.txt").read_text() == "one\n"
    done = stockade("run", "--workspace", "project", "--commit", "--", "sh", "-c", "echo two >> a.txt")
    assert done.returncode == 0 and b"committed: 1 change" in done.stderr, done
    assert (project / "a.txt").read_text() == "one\ntwo\n"


def test_run_failed_commit_exits_125(stockade, project):
    done = stockade("run", "--workspace", "project", "--commit", "--", "ln", "-s", "/etc/passwd", "planted")
    assert done.returncode == 125
    assert b"planted is a link that leads out" in done.stderr
    assert not (project / "planted").is_symlink()


def test_run_artifacts_are_written_to_folder(stockade, folder):
    code = "open('a.txt', 'w').write('1'); open('b.dat', 'w'); import os; os.mkfifo('c.txt')"
    done = stockade("run", "--artifacts", "*.txt", "--artifacts-to", "out", "-c", code)
    assert done.returncode == 0 and b"not copied out: c.txt is a FIFO" in done.stderr, done
    assert [path.name for path in (folder / "out").iterdir()] == ["a.txt"]
    again = stockade("run", "--artifacts", "*.txt", "--artifacts-to", "out", "-c", code)
    assert again.returncode == 125 and b"File exists; remove it, or name another folder" in again.stderr


def test_run_artifacts_pattern_without_a_file_is_named(stockade):
    words = ("--artifacts", "*.png", "--artifacts", "*.txt", "--artifacts-to", "out")
    done = stockade("run", *words, "-c", "open('a.txt', 'w')")
    assert done.stderr == b"stockade: --artifacts *.png: the code left no such file\n"


@pytest.mark.needs("native")
def test_run_names_the_files_that_it_discards(stockade, folder):
    (folder / "in.txt").write_text("given")
    code = "import os; os.mkdir('d'); open('d/b', 'w'); open('a', 'w'); open('.history', 'w'); open('in.txt').read()"
    done = stockade("run", "--file", "in.txt", "-c", code)
    told = b"stockade: discarded: 2 files (a, d/b); --artifacts PATTERN --artifacts-to FOLDER keeps files\n"
    assert (done.returncode, done.stderr) == (0, told)
    assert stockade("run", "--file", "in.txt", "-c", "open('in.txt')").stderr == b""
    done = stockade("run", "--json", "-c", "open('a', 'w')")
    assert (done.stderr, json.loads(done.stdout)["artifacts_refused"]) == (b"", [])


def test_run_names_the_option_that_lets_the_code_write(stockade, project):
    done = stockade("run", "--workspace", "project", "-c", "open('new', 'w')")
    assert b"/project is shown read-only; --access overlay lets the code write, --commit keeps" in done.stderr
    assert b"--access overlay" not in stockade("run", "-c", "open('/etc/new', 'w')").stderr


def test_run_artifacts_that_came_out_are_not_discarded(stockade, project):
    words = ("--workspace", "project", "--access", "overlay", "--artifacts", "*.png", "--artifacts-to", "out")
    done = stockade("run", *words, "--", "sh", "-c", "echo 1 > a.png; echo 2 > b.txt")
    assert done.stderr == b"stockade: discarded: 1 change (b.txt); --commit keeps them, --diff shows them\n"
    done = stockade("run", *words, "--", "sh", "-c", "echo 1 > c.png")
    assert done.stderr == b""


def test_run_artifacts_do_not_follow_a_link(stockade, folder):
    (folder / "out").mkdir()
    (folder / "elsewhere").mkdir()
    (folder / "out" / "sub").symlink_to(folder / "elsewhere")
    (folder / "out" / "a").symlink_to(folder / "elsewhere" / "a")
    code = "import os; os.mkdir('sub'); open('sub/x', 'w'); open('a', 'w')"
    done = stockade("run", "--artifacts", "**", "--artifacts-to", "out", "-c", code)
    assert done.returncode == 125
    assert list((folder / "elsewhere").iterdir()) == []


def test_run_archive_fills_workspace(stockade, folder):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("data/n.txt", "42")
    (folder / "in.zip").write_bytes(raw.getvalue())
    done = stockade("run", "--archive", "in.zip", "-c", "print(open('data/n.txt').read())")
    assert (done.returncode, done.stdout) == (0, b"42\n"), done
    (folder / "bad.zip").write_bytes(raw.getvalue().replace(b"data/n.txt", b"../../n.tx"))
    done = stockade("run", "--archive", "bad.zip", "-c", "1")
    assert done.returncode != 0 and b"without '..'" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--artifacts", "*"),
        ("--artifacts-to", "x"),
        ("--diff",),
        ("--commit",),
        ("--diff", "--workspace", "project", "--access", "write"),
    ],
)
def test_run_incomplete_file_options_are_refused(stockade, project, words):
    assert stockade("run", *words, "-c", "1").returncode == 2


def test_run_commit_takes_the_folder_of_a_profile(stockade, project):
    done = stockade("run", "--profile", "build", "--commit", "--", "sh", "-c", "echo two >> project/a.txt")
    assert (done.returncode, done.stderr) == (0, b"stockade: committed: 1 change\n"), done
    assert (project / "a.txt").read_text() == "one\ntwo\n"
