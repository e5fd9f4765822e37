"""The accounts for which a test is skipped, and those for which it must run."""

import os
import pwd
import shutil

import pytest

from tests.support import facilities


@pytest.mark.parametrize(
    ("account", "left_out"),
    [(None, True), ("nobody", True), ("stockade-test", False), ("root", False)],
)
def test_firejail_tests_skip_only_refused_accounts(monkeypatch, account, left_out):
    accounts = {12345: pwd.struct_passwd((account, "x", 12345, 12345, "", "/", "/bin/sh"))} if account else {}
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(pwd, "getpwuid", accounts.__getitem__)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert facilities.is_by_nature("firejail") is left_out


def test_firejail_tests_missing_firejail_is_not_skipped(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert not facilities.is_by_nature("firejail")
