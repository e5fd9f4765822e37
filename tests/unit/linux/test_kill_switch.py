"""The file of the kill switch: which runs its lines name."""

import os

import pytest

from stockade.linux import kill_switch
from stockade.linux.kill_switch import KillSwitch

RUN = {"labels": ("user=eve", "app=shop"), "sandbox": "5a", "began": 1000.0}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "kill-switch"


def concerns(file, text, **run):
    file.write_text(text)
    switch = KillSwitch((str(file),))
    return switch.look() and switch.concerns(**{**RUN, **run})


@pytest.mark.parametrize(
    "text", ["all", "label user=eve", "label x=y\nlabel app=shop\n", "sandbox 5a", "since 1000", "since 999.5"]
)
def test_line_names_the_run(file, text):
    assert concerns(file, text)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# all", "label user=eves", "label app=eve", "sandbox 5", "since 1000.001"]
)
def test_line_names_other_runs(file, text):
    assert not concerns(file, text)


@pytest.mark.parametrize(
    "text", ["ALL", "labels user=eve", "label eve", "sandbox", "since soon", "since", "x" * (1 << 17)], ids=str.split
)
def test_line_that_cannot_be_understood_names_every_run(file, text):
    assert concerns(file, text, labels=(), sandbox="", began=0.0)


def test_run_outside_of_sandboxes_is_not_named_by_an_empty_id(file):
    assert not concerns(file, "sandbox 5a", sandbox="")


def test_missing_file_names_nothing(file):
    assert not KillSwitch((str(file),)).look()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/null")], ids=range(3))
def test_other_kinds_of_files_name_every_run(file, make):
    make(file)
    assert kill_switch.read(str(file)) == ["all"]


def test_change_is_noticed(file):
    switch = KillSwitch((str(file),))
    assert not switch.look()
    file.write_text("label user=eve")
    assert switch.look()
    file.write_text("label user=ada")
    os.utime(file, ns=(1, 1))
    assert switch.look()
    assert not switch.concerns(**RUN)
    file.unlink()
    assert not switch.look()
