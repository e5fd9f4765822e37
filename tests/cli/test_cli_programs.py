"""Programs that exist on the host are found, or the error tells how to show them."""

from __future__ import annotations

import os
import shutil
import sys
import venv

import pytest


def test_python_of_callers_path_is_shown(stockade, folder, tmp_path):
    """The sandbox itself has no program ``python``, or it is another one."""
    venv.create(tmp_path / "own", symlinks=True)
    (tmp_path / "own" / "bin" / "python9").symlink_to("python3")
    path = f"{tmp_path / 'own' / 'bin'}:{os.environ['PATH']}"
    done = stockade("run", "--", "python9", "-c", "import sys; print(sys.prefix)", env={"PATH": path})
    assert done.stdout.decode().strip() == str(tmp_path / "own")


@pytest.mark.parametrize(("mode", "group"), [(0o777, 0), (0o775, 12345)])
def test_python_that_others_can_replace_is_not_started(stockade, folder, tmp_path, mode, group):
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "python9").write_text(f"#!/bin/sh\ntouch {folder}/started\n")
    (tmp_path / "open" / "python9").chmod(0o755)
    os.chown(tmp_path / "open", 0, group)
    (tmp_path / "open").chmod(mode)
    done = stockade("run", "--", "python9", env={"PATH": f"{tmp_path / 'open'}:{os.environ['PATH']}"})
    assert (done.returncode, (folder / "started").exists()) == (2, False)
    assert b"another user can replace this program" in done.stderr


def test_later_folder_of_the_path_is_searched(stockade, folder, tmp_path):
    """The first folder has a link to a program that the sandbox does not show."""
    (tmp_path / "first").mkdir()
    (tmp_path / "kit").mkdir()
    shutil.copy("/bin/true", tmp_path / "kit" / "true")
    (tmp_path / "first" / "true").symlink_to(tmp_path / "kit" / "true")
    path = f"{tmp_path / 'first'}:/usr/bin:/bin"
    assert stockade("run", "--env", f"PATH={path}", "--", "true", env={"PATH": path}).returncode == 0


def test_program_that_the_run_brings_is_found(stockade, folder, tmp_path):
    """The caller's own PATH has a program of the same name."""
    for place, word in ((folder / "bin", "brought"), (tmp_path / "own", "own")):
        place.mkdir()
        (place / "tool9").write_text(f"#!/bin/sh\necho {word}\n")
        (place / "tool9").chmod(0o755)
    words = ("--env", "PATH=/workspace/bin:/bin", "--file", "bin/tool9", "--", "tool9")
    done = stockade("run", *words, env={"PATH": f"{tmp_path / 'own'}:{os.environ['PATH']}"})
    assert done.stdout == b"brought\n", done.stderr


def test_program_of_callers_path_names_the_folder_to_show(stockade, folder, tmp_path):
    tool = tmp_path / "kit" / "bin" / "tool9"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho it runs\n")
    tool.chmod(0o755)
    done = stockade("run", "--", "tool9", env={"PATH": f"{tool.parent}:{os.environ['PATH']}"})
    assert done.returncode == 2
    assert f"show {tool.parent.parent} (filesystem.read, or --read), and run {tool}".encode() in done.stderr
    assert stockade("run", "--read", str(tool.parent.parent), "--", str(tool)).stdout == b"it runs\n"
    assert b"show" in stockade("run", "--", str(tool)).stderr


def test_packages_reach_a_command(stockade, folder, tmp_path):
    venv.create(tmp_path / "own", symlinks=True)
    site = next((tmp_path / "own").glob("lib/python*/site-packages"))
    (site / "only_here.py").write_text("word = 7\n")
    code = "import only_here; print(only_here.word)"
    assert stockade("run", "--packages", str(tmp_path / "own"), "--", "python", "-c", code).stdout == b"7\n"
    refused = stockade("run", "--packages", str(folder), "--", "true")
    assert (refused.returncode, b"not a virtual environment" in refused.stderr) == (2, True)


def test_node_modules_reach_a_command(stockade, folder):
    (folder / "node_modules" / "kit").mkdir(parents=True)
    (folder / "node_modules" / "kit" / "index.js").write_text("module.exports = 8\n")
    found = stockade("run", "--packages", "node_modules", "--", "node", "-e", "console.log(require('kit'))")
    assert found.stdout == b"8\n"


def test_script_with_missing_interpreter_says_so(stockade, folder):
    (folder / "tool").write_text(f"#!{sys.prefix}/none/python\n")
    (folder / "tool").chmod(0o755)
    done = stockade("run", "--", "./tool")
    assert (done.returncode, b"its interpreter" in done.stderr) == (127, True)
