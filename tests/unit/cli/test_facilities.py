"""Whom a test is left out for, and for whom it must run."""

import os
import pwd
import shutil

import pytest

from tests.support import facilities


@pytest.mark.parametrize(
    ("account", "left_out"),
    [(None, True), ("nobody", True), ("stockade-test", False), ("root", False)],
)
def test_firejail_is_left_out_only_for_whom_it_never_serves(monkeypatch, account, left_out):
    accounts = {12345: pwd.struct_passwd((account, "x", 12345, 12345, "", "/", "/bin/sh"))} if account else {}
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(pwd, "getpwuid", accounts.__getitem__)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert facilities.is_by_nature("firejail") is left_out


def test_firejail_that_is_not_installed_is_left_out_for_nobody(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert not facilities.is_by_nature("firejail")
