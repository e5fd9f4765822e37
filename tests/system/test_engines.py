"""An engine that is missing, too old or broken leads to the right choice or the right error within two seconds."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stockade
from stockade.backends.bubblewrap.backend import Bubblewrap
from stockade.backends.firejail.backend import Firejail
from stockade.backends.oci import runtime
from stockade.backends.oci.backend import Oci
from stockade.client import warden_process
from stockade.planning import engines

pytestmark = pytest.mark.timing

NOBODY = 65534
REAL = "/usr/bin/bwrap"
PROGRAMS = {"bubblewrap": "bwrap", "oci": "crun", "firejail": "firejail"}
HELP = (
    '*--help*) echo "--json-status-fd --size --perms --seccomp --quiet --noprofile --ipc-namespace --caps --nonewprivs'
    " --nogroups --private-dev --no3d --nodvd --nosound --novideo --nou2f --noinput --noprinters --nodbus --deterministic-exit-code --deterministic-shutdown --net --keep-fd --private-cwd"
    ' --private-etc --whitelist --root --log --log-format --cgroup-manager";;'
)
BROKEN = {
    "missing": None,
    "old": '#!/bin/sh\ncase "$*" in *--version*) echo bubblewrap 0.1.2;; *--help*) echo "--seccomp";; *) exit 0;; esac',
    "refused": f'#!/bin/sh\ncase "$*" in *--version*) echo version 0.9.72;; {HELP} *) echo "No permissions" >&2; exit 1;; esac',
    "hanging": "#!/bin/sh\nsleep 30",
    "silent": "#!/bin/sh\nexit 0",
    "no program": "\x7fELF nonsense",
}
SENTENCES = {
    "missing": "is not installed; apt install ",
    "old": "0.1.2 has no --",
    "refused": "No permissions",
    "hanging": "timed out",
    "silent": "--version says",
    "no program": "cannot be run",
}


@pytest.fixture(params=[(backend, how) for backend in PROGRAMS for how in BROKEN])
def engine(request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Put a broken engine before the real one on the path, or in its place."""
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/") and os.access(folder, os.W_OK):
            folder.chmod(0o755)
    backend, how = request.param
    if BROKEN[how] is not None:
        (tmp_path / PROGRAMS[backend]).write_text(BROKEN[how])
        (tmp_path / PROGRAMS[backend]).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    engines._tried.cache_clear()
    yield request.param
    engines._tried.cache_clear()


def test_broken_engine_by_name_is_refused(engine: tuple[str, str]) -> None:
    begin = time.monotonic()
    backend, how = engine
    with pytest.raises(stockade.BackendUnavailable, match=SENTENCES[how]):
        stockade.run_command(["true"], backend=backend)
    assert time.monotonic() - begin < 2


def test_broken_engine_is_not_chosen(engine: tuple[str, str]) -> None:
    begin = time.monotonic()
    assert stockade.select().backend.name == "native"
    assert stockade.run_command(["true"]).ok
    assert time.monotonic() - begin < 2


@pytest.mark.needs("bwrap")
def test_bwrap_failing_later_is_sandbox_failed(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: Creating new namespace failed' >&2\nexit 1")
    for folder in (broken, tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/") and os.access(folder, os.W_OK):
            folder.chmod(0o755)
    backend = Bubblewrap(engine=engines.Engine(str(broken), (0, 8, 0)))
    result = stockade.run_command(["true"], backend=backend)
    assert result.outcome is stockade.Outcome.SANDBOX_FAILED
    assert "Creating new namespace failed" in result.error.message


@pytest.mark.needs("bwrap")
def test_bwrap_own_arguments_are_passed_on(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "a").write_text("seen")
    for folder in tmp_path.parents:
        if str(folder).startswith("/tmp/") and os.access(folder, os.W_OK):
            folder.chmod(0o755)
    more = Bubblewrap(arguments=("--ro-bind", str(tmp_path), "/workspace"))
    result = stockade.run_command(["cat", "a"], backend=more)
    assert result.stdout == "seen", result.stderr
    assert f"--ro-bind {tmp_path} /workspace" in result.enforcement[stockade.Guarantee.FILESYSTEM_READ].note


@pytest.mark.needs("bwrap", "root")
def test_set_user_id_bwrap_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "bwrap"
    copy.write_bytes(Path(REAL).read_bytes())
    copy.chmod(0o4755)
    backend = Bubblewrap(engine=engines.Engine(str(copy), (0, 8, 0)))
    with pytest.raises(stockade.BackendUnavailable, match="set-user-id"):
        stockade.run_command(["true"], backend=backend)


@pytest.mark.needs("unprivileged")
def test_firejail_without_account_is_refused() -> None:
    found = Firejail().availability(warden_process.host_facts())
    if shutil.which("firejail") is None:
        assert found.remedy == "apt install firejail"
    elif os.geteuid() == NOBODY:
        assert not found.usable
        assert "not allowed to use Firejail" in found.reason
        assert found.remedy.startswith("use an account other than nobody")
    else:
        assert found.usable or found.remedy, found


@pytest.mark.needs("firejail")
def test_firejail_failing_later_is_sandbox_failed(tmp_path: Path) -> None:
    broken = tmp_path / "firejail"
    broken.write_text("#!/bin/sh\necho 'Error: cannot mount' >&2\nexit 1")
    for folder in (broken, tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/") and os.access(folder, os.W_OK):
            folder.chmod(0o755)
    backend = Firejail(engine=engines.Engine(str(broken), (0, 9, 72)))
    result = stockade.run_command(["true"], backend=backend, policy=stockade.Policy(accept={"disk": "absent"}))
    assert result.outcome is stockade.Outcome.SANDBOX_FAILED
    assert "Error: cannot mount" in result.error.message


def crun(tmp_path: Path, text: str) -> Oci:
    """Return a backend whose runtime is a script."""
    broken = tmp_path / "crun"
    broken.write_text(f"#!/bin/sh\n{text}\n")
    for folder in (broken, tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/") and os.access(folder, os.W_OK):
            folder.chmod(0o755)
    return Oci(engine=engines.Engine(str(broken), (1, 8, 1)))


@pytest.mark.needs("crun")
@pytest.mark.parametrize(("text", "message"), [
    ("echo refused >&2; exit 1", "crun: refused"),
    ("exit 0", "the runtime ended before the container started"),
    ('for a; do case $a in --log=*) echo \'{"level":"error","msg":"no mount"}\' > ${a#--log=file:};; esac; done; exit 1', "crun: no mount"),
    ("kill -9 $$", "the runtime ended before the container started"),
    ("sleep 60", "in 8 s: Connection timed out (ETIMEDOUT)"),
])  # fmt: skip
def test_crun_failing_later_is_sandbox_failed(tmp_path: Path, text: str, message: str) -> None:
    result = stockade.run_command(["true"], backend=crun(tmp_path, text), timeout=1.5)
    assert result.outcome is stockade.Outcome.SANDBOX_FAILED
    assert message in result.error.message, result.error


@pytest.mark.needs("crun")
@pytest.mark.parametrize(("field", "message"), [
    ("Seccomp", "loaded no filter"), ("CapBnd", "left capabilities"), ("NoNewPrivs", "left new privileges open"),
])  # fmt: skip
def test_crun_with_fewer_walls_is_refused(field: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weaker = {
        "Seccomp": ("run.oci.seccomp_bpf_data", "run.oci.other"),
        "CapBnd": ('"capabilities": {}', '"capabilities": {"bounding": ["CAP_CHOWN"]}'),
        "NoNewPrivs": ('"noNewPrivileges": true', '"noNewPrivileges": false'),
    }
    assert weaker[field][0] in runtime._CONFIG
    monkeypatch.setattr(runtime, "_CONFIG", runtime._CONFIG.replace(*weaker[field]))
    assert message in Oci().availability(warden_process.host_facts()).reason
