"""The owner and mode of a ceiling's file. ``tests/system/test_ceiling.py`` tests the real /etc/stockade/policy.toml."""

import os

import pytest

from stockade import Policy, PolicyError, resolve
from stockade.policy import ceiling_file


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return a file in place of the administrator's ceiling; the caller is trusted as root is."""
    path = tmp_path / "etc" / "policy.toml"
    path.parent.mkdir(mode=0o755)
    path.write_text('[limits]\nmemory = "64MiB"\n')
    path.chmod(0o644)
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(path))
    return path


def read(path):
    return ceiling_file.callers(str(path))


def refusal(path):
    with pytest.raises(PolicyError) as caught:
        read(path)
    assert "nothing runs until it is corrected" in str(caught.value)
    return str(caught.value)


def test_a_file_of_the_caller_is_read_by_whatever_way(file, tmp_path, monkeypatch):
    text = file.read_text()
    assert read(file) == text
    (tmp_path / "link").symlink_to("etc/../etc")
    assert read(tmp_path / "link" / "policy.toml") == text
    monkeypatch.chdir(tmp_path)
    assert read("etc/policy.toml") == text


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write(file, mode):
    file.chmod(mode)
    assert f"{file} can be written by others (mode 0{mode:o}): chmod go-w {file}" in refusal(file)


def test_a_folder_that_others_can_write(file, tmp_path):
    file.parent.chmod(0o777)
    assert f"{file.parent} can be written by others" in refusal(file)
    (tmp_path / "link").symlink_to("etc")
    assert "can be written by others" in refusal(tmp_path / "link" / "policy.toml")
    file.parent.chmod(0o1777)  # only the owner of a file can replace it there
    assert read(file)


@pytest.mark.needs("root")
def test_a_file_or_a_folder_or_a_link_of_somebody_else(file, tmp_path):
    os.chown(file, 65534, 65534)
    assert f"{file} belongs to uid 65534" in refusal(file)
    os.chown(file, 0, 0)
    os.chown(file.parent, 65534, 65534)
    assert f"{file.parent} belongs to uid 65534" in refusal(file)
    os.chown(file.parent, 0, 0)
    link = tmp_path / "link"
    link.symlink_to("etc")
    os.lchown(link, 65534, 65534)
    assert f"{link} belongs to uid 65534" in refusal(link / "policy.toml")


def test_what_cannot_be_read(file, tmp_path):
    assert "No such file" in refusal(tmp_path / "absent.toml")
    assert "Is a directory" in refusal(file.parent)
    file.write_bytes(b"\xff")
    assert "not UTF-8" in refusal(file)
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert "Too many levels" in refusal(loop)


@pytest.mark.needs("unprivileged")
def test_a_file_that_is_closed_to_us(file):
    file.chmod(0)
    assert "Permission denied" in refusal(file)


def test_none_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(tmp_path / "nowhere" / "policy.toml"))
    assert ceiling_file.administrators() is None
    assert resolve(variables={}).policy.limits.memory == 2**28


def test_there_and_unreadable_is_not_none(monkeypatch, tmp_path):
    (tmp_path / "policy.toml").symlink_to("gone")
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(tmp_path / "policy.toml"))
    with pytest.raises(PolicyError, match="ceiling = "):
        resolve(variables={})
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(tmp_path / "file" / "policy.toml"))
    with pytest.raises(PolicyError, match="ceiling = "):
        resolve(variables={})


@pytest.mark.parametrize("text", ["[limits", "limits = 3", '[limits]\nmemry = "64MiB"\n', "memory = true"])
def test_what_makes_no_sense_stops_everything(file, text, monkeypatch):
    file.write_text(text)
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(file.with_name("none")))  # otherwise its owner might be the reason
    with pytest.raises(PolicyError, match="ceiling") as caught:
        resolve(variables={}, ceiling=file)
    assert "belongs to" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "# [limits]\n", "[limits]\n"])
def test_a_file_that_sets_no_field_is_no_ceiling(file, text, monkeypatch):
    file.write_text(text)
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(file.with_name("none")))
    with pytest.raises(PolicyError, match=r"policy.toml: sets no field, so it bounds nothing"):
        resolve(variables={}, ceiling=file)


@pytest.mark.needs("root")
def test_nor_is_it_one_where_the_administrator_s_would_be(file):
    file.write_text("")
    with pytest.raises(PolicyError, match=r"policy.toml: sets no field, so it bounds nothing"):
        resolve(variables={})


@pytest.mark.parametrize("ceiling", [{}, {"limits": {}}, {"security": {"host_uid": None}}, Policy()])
def test_an_argument_that_sets_no_field_is_no_ceiling(ceiling):
    with pytest.raises(PolicyError, match="ceiling = argument: sets no field"):
        resolve(variables={}, ceiling=ceiling)
