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


def test_ceiling_file_through_link_is_read(file, tmp_path, monkeypatch):
    text = file.read_text()
    assert read(file) == text
    (tmp_path / "link").symlink_to("etc/../etc")
    assert read(tmp_path / "link" / "policy.toml") == text
    monkeypatch.chdir(tmp_path)
    assert read("etc/policy.toml") == text


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_ceiling_file_writable_by_others_refused(file, mode):
    file.chmod(mode)
    assert f"{file} can be written by others (mode 0{mode:o}): chmod go-w {file}" in refusal(file)


def test_ceiling_folder_writable_by_others_refused(file, tmp_path):
    file.parent.chmod(0o777)
    assert f"{file.parent} can be written by others" in refusal(file)
    (tmp_path / "link").symlink_to("etc")
    assert "can be written by others" in refusal(tmp_path / "link" / "policy.toml")
    file.parent.chmod(0o1777)  # only the owner of a file can replace it there
    assert read(file)


@pytest.mark.needs("root")
def test_ceiling_file_of_another_user_refused(file, tmp_path):
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


def test_ceiling_file_unreadable_is_refused(file, tmp_path):
    assert "No such file" in refusal(tmp_path / "absent.toml")
    assert "Is a directory" in refusal(file.parent)
    file.write_bytes(b"\xff")
    assert "not UTF-8" in refusal(file)
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert "Too many levels" in refusal(loop)


@pytest.mark.needs("unprivileged")
def test_ceiling_file_without_permission_refused(file):
    file.chmod(0)
    assert "Permission denied" in refusal(file)


def test_ceiling_file_absent_bounds_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(tmp_path / "nowhere" / "policy.toml"))
    assert ceiling_file.administrators() is None
    assert resolve(variables={}).policy.limits.memory == 2**28


def test_ceiling_file_dangling_link_is_refused(monkeypatch, tmp_path):
    (tmp_path / "policy.toml").symlink_to("gone")
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(tmp_path / "policy.toml"))
    with pytest.raises(PolicyError, match="ceiling = "):
        resolve(variables={})
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(tmp_path / "file" / "policy.toml"))
    with pytest.raises(PolicyError, match="ceiling = "):
        resolve(variables={})


@pytest.mark.parametrize("text", ["[limits", "limits = 3", '[limits]\nmemry = "64MiB"\n', "memory = true"])
def test_ceiling_file_invalid_content_is_refused(file, text, monkeypatch):
    file.write_text(text)
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(file.with_name("none")))  # otherwise its owner might be the reason
    with pytest.raises(PolicyError, match="ceiling") as caught:
        resolve(variables={}, ceiling=file)
    assert "belongs to" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "# [limits]\n", "[limits]\n"])
def test_ceiling_file_without_fields_is_refused(file, text, monkeypatch):
    file.write_text(text)
    monkeypatch.setattr(ceiling_file, "SYSTEM", str(file.with_name("none")))
    with pytest.raises(PolicyError, match=r"policy.toml: sets no field, so it bounds nothing"):
        resolve(variables={}, ceiling=file)


@pytest.mark.needs("root")
def test_ceiling_of_administrator_empty_is_refused(file):
    file.write_text("")
    with pytest.raises(PolicyError, match=r"policy.toml: sets no field, so it bounds nothing"):
        resolve(variables={})


@pytest.mark.parametrize("ceiling", [{}, {"limits": {}}, {"security": {"host_uid": None}}, Policy()])
def test_ceiling_argument_without_fields_refused(ceiling):
    with pytest.raises(PolicyError, match="ceiling = argument: sets no field"):
        resolve(variables={}, ceiling=ceiling)
