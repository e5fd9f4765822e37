"""A project of the caller's own, also where the caller is root: the profiles work on it, or name the option that does."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import stockade
from stockade.testing.base import open_up

pytestmark = pytest.mark.needs("native")
BACKENDS = [
    pytest.param(name, marks=pytest.mark.needs(*needs))
    for name, needs in (("native", ()), ("bubblewrap", ("bwrap",)), ("process", ()), ("landlock", ("landlock",)))
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project without a repository the current folder."""
    open_up(tmp_path)
    (tmp_path / "shop.py").write_text("def total(prices):\n    return sum(prices)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_profile_test_runs_over_own_project(project: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], check=True)
    code = "echo '# edited' >> shop.py && echo new > made && git status --short && stat -c %U shop.py"
    result = stockade.run_command(["sh", "-c", code], policy="test")
    assert (result.stdout, result.stderr) == ("?? made\n?? shop.py\nguest\n", ""), result
    assert [change.path for change in result.changes] == ["made", "shop.py"]
    assert sorted(path.name for path in project.iterdir()) == [".git", "shop.py"]


@pytest.mark.parametrize("access", ["read", "overlay"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_git_works_in_own_project(project: Path, backend: str, access: str) -> None:
    subprocess.run(["git", "init", "-q", "."], check=True)
    policy = stockade.Policy(
        filesystem={"workspace": project, "access": access}, accept=dict.fromkeys(stockade.Guarantee, "absent")
    )
    result = stockade.run_command(["git", "status", "--short"], policy=policy, backend=backend)
    assert (result.stdout, result.stderr) == ("?? shop.py\n", ""), result


def test_profile_test_needs_no_repository(project: Path) -> None:
    result = stockade.run_command(["sh", "-c", "mkdir -p .git/hooks; echo evil > .git/hooks/x; ls"], policy="test")
    assert result.ok, result
    assert result.changes.commit().left_out and not (project / ".git").exists()


@pytest.mark.parametrize("profile", ["dev", "build"])
def test_profile_that_writes_names_the_option(project: Path, profile: str) -> None:
    with pytest.raises(stockade.JobError, match=r"--access overlay.* with --commit to write them") as caught:
        stockade.run_command(["true"], policy=profile)
    assert "\n" not in str(caught.value)
    policy = stockade.Policy.profile(profile, filesystem={"access": "overlay"})
    result = stockade.run_command(["sh", "-c", "echo built > out"], policy=policy)
    result.changes.commit()
    assert (project / "out").read_text() == "built\n" and (project / "out").stat().st_uid == os.geteuid()


@pytest.mark.needs("root")
@pytest.mark.parametrize("access", ["overlay", "copy"])
def test_project_of_root_gets_no_set_user_id_file(project: Path, access: str) -> None:
    policy = stockade.Policy(
        filesystem={"workspace": project, "access": access}, security={"syscalls": "permissive"}
    )  # the other filters refuse the bit
    code = "import os, shutil\nshutil.copy('/bin/sh', 'sh')\nos.chmod('sh', 0o6755)\nprint(oct(os.stat('sh').st_mode))"
    result = stockade.run(code, policy=policy)
    assert result.stdout == "0o106755\n", result
    result.changes.commit()
    assert stat.S_IMODE((project / "sh").stat().st_mode) == 0o755


@pytest.mark.needs("root")
def test_project_on_container_file_system_is_copied(project: Path) -> None:
    """Root's files cannot be shown as the guest's where the project lies on an overlay file system, as in a container."""
    for name in ("lower", "upper", "work", "shown"):
        (project / name).mkdir()
    (project / "lower" / "shop.py").write_text("x = 1\n")
    (project / "lower" / "gone").write_text("x")
    (project / "lower" / ".env").write_text("SECRET")
    (project / "lower" / "theirs").write_text("SECRET")
    os.chown(project / "lower" / "theirs", 1234, 1234)
    (project / "lower" / "theirs").chmod(0o600)
    guest = (
        "import os\nopen('shop.py', 'a').write('y = 2\\n'); os.unlink('gone'); print(sorted(os.listdir('.')))\n"
        "for name in ('.env', 'theirs'):\n"
        "    try: print(open(name).read())\n    except OSError as error: print(error.strerror)\n"
    )
    code = (
        "import os, stockade\nos.chdir('shown')\npolicy = stockade.Policy.profile('test')\n"
        f"result = stockade.run({guest!r}, policy=policy)\n"
        "print(result.stdout, result.stderr, end='', sep='')\n"
        "print([(change.kind, change.path) for change in result.changes], result.changes.refused)\n"
        "print(result.changes.commit().applied and open('shop.py').read())\n"
        "open('big', 'wb').write(bytes(1 << 17))\n"
        "policy = stockade.Policy.profile('test', limits={'disk': '64KiB'})\n"
        "print(stockade.run('1', policy=policy).error.message)"
    )
    mount = "mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work shown"
    words = ["unshare", "-m", "sh", "-ec", f'{mount}; exec "$0" -c "$1"', sys.executable, code]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False, timeout=60)
    names, hidden, theirs, *more = done.stdout.splitlines()
    assert names == "['shop.py', 'theirs']", done
    assert (hidden, theirs) == ("No such file or directory", "Permission denied")
    assert more[:3] == ["[('deleted', 'gone'), ('changed', 'shop.py')] ()", "x = 1", "y = 2"]
    assert "is copied, since its file system cannot show it" in more[-1] and "larger than limits.disk" in more[-1]
