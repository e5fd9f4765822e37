"""Attempts to get around firejail's walls, and leftovers that it must not have."""

import os
import subprocess
from pathlib import Path

import pytest

import stockade
from stockade.backends.firejail.inside import _lowered

pytestmark = pytest.mark.needs("firejail")

POLICY = stockade.Policy(accept={"disk": "absent"}, limits={"wall_time": 20})
NOTES = Path("/run/firejail/sandbox")
_WRITABLE = """
import os
own, found = os.path.dirname(os.getcwd()), []
for top, folders, names in os.walk('/'):
    folders[:] = [name for name in folders if os.path.join(top, name) not in ('/proc', '/usr', own)]
    for path in (top, *(os.path.join(top, name) for name in names)):
        if os.access(path, os.W_OK) and not os.path.islink(path) and not path.startswith('/dev/'):
            found.append(path)
for path in ('/usr', '/tmp', '/dev', '/dev/shm', own + '/job'):
    try:
        os.close(os.open(path + '/made', os.O_CREAT | os.O_WRONLY))
        found.append(path)
    except OSError:
        pass
open('made', 'w').close()
print(found)
"""


def _run(source: str) -> stockade.Result:
    return stockade.run(source, policy=POLICY, backend="firejail", interpreter="/usr/bin/python3")


def test_guest_writes_only_to_run_folders() -> None:
    result = _run(_WRITABLE)
    assert result.stdout == "[]\n", result.stderr


def test_folders_beside_the_system_are_closed(tmp_path: Path) -> None:
    shown = ("/usr", "/etc", "/dev", "/proc", "/run", "/tmp", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
    hidden = [str(path) for path in Path("/").iterdir() if str(path) not in shown and not path.is_symlink()]
    tmp_path.chmod(0o755)
    code = "import os, sys\nfor path in sys.argv[1:]:\n    try: os.close(os.open(path, 0)); print(path)\n    except OSError: pass"
    arguments = (*hidden, str(tmp_path), "/etc/shadow", "/etc/hostname", "/run/stockade", "/tmp/.")
    result = stockade.run(code, policy=POLICY, backend="firejail", interpreter="/usr/bin/python3", arguments=arguments)
    assert result.stdout == "/tmp/.\n", result.stderr


def test_guest_inherits_nothing_of_firejail() -> None:
    result = _run("import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1], *sorted(os.environ))")
    pools = "MKL_NUM_THREADS OMP_NUM_THREADS OPENBLAS_NUM_THREADS"
    assert result.stdout == f"[0, 1, 2, 3] HOME LANG {pools} PATH TMPDIR\n"


def test_first_process_cannot_be_inspected() -> None:
    code = "import os\nfor name in ('fd', 'exe', 'mem'):\n    try: os.open('/proc/1/' + name, 0); print('open')\n    except OSError: print('refused')"
    assert _run(code).stdout == "refused\n" * 3


def test_nested_firejail_has_no_privilege() -> None:
    inner = ["firejail", "--noprofile", "--quiet", "id", "-u"]
    result = stockade.run_command(inner, policy=POLICY, backend="firejail")
    assert result.stdout.strip() not in ("", "0"), result


@pytest.mark.alone
@pytest.mark.needs("root")
def test_killed_run_leaves_no_note_on_host() -> None:
    before = set(NOTES.iterdir()) if NOTES.exists() else set()
    policy = stockade.Policy(limits={"wall_time": 1})
    result = stockade.run_command(["sleep", "60"], policy=policy, backend="firejail")
    assert result.limit is stockade.Guarantee.WALL_TIME
    assert (set(NOTES.iterdir()) if NOTES.exists() else set()) <= before


@pytest.mark.needs("root")
def test_account_exists_only_in_the_run() -> None:
    result = stockade.run_command(["id", "-un"], policy=POLICY, backend="firejail")
    assert result.stdout == "guest\n", result.stderr
    assert subprocess.run(["getent", "passwd", "guest"], check=False, capture_output=True).returncode != 0


def test_shared_folder_is_writable_by_its_mode(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/") and os.access(folder, os.W_OK):
            folder.chmod(0o777 if folder == tmp_path else 0o755)
    policy = stockade.Policy(accept={"disk": "absent"}, filesystem={"write": [tmp_path]})
    code = f"open({str(tmp_path / 'a')!r}, 'w').write('x')\ntry: open({str(tmp_path.parent / 'b')!r}, 'w')\nexcept OSError: print('no')"
    result = stockade.run(code, policy=policy, backend="firejail", interpreter="/usr/bin/python3")
    assert (result.stdout, (tmp_path / "a").read_text()) == ("no\n", "x"), result.stderr


def test_limits_are_cut_to_hard_limits() -> None:
    number, (soft, hard) = _lowered(7, 1 << 40, 1 << 40)  # RLIMIT_NOFILE
    assert number == 7
    assert soft == hard <= 1 << 40


def test_devices_are_the_plain_ones() -> None:
    plain = {
        "fd",
        "full",
        "null",
        "ptmx",
        "pts",
        "random",
        "shm",
        "stderr",
        "stdin",
        "stdout",
        "tty",
        "urandom",
        "zero",
    }
    assert set(_run("import os; print(*os.listdir('/dev'))").stdout.split()) <= plain
