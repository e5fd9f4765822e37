"""firejail's exact command line, and the translation of the progress reports from inside."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stockade import Policy
from stockade.backends.firejail.backend import launch, translate
from stockade.backends.firejail.capabilities import capabilities
from stockade.backends.shared.guest_environment import OWN_NAMES
from stockade.core.errors import JobError
from stockade.core.launch import decode_steps
from stockade.core.report import Failure
from stockade.planning.engines import Engine
from stockade.planning.plan import plan
from stockade.policy.guarantees import Guarantee, Isolation, Strength
from stockade.runs.job import Command, Job
from tests.unit import facts as hosts
from tests.unit.runs.test_verdict import report

ENGINE = Engine("/usr/bin/firejail", (0, 9, 72))
HOST = replace(hosts.USER, seccomp=False, system=(("/usr", ""), ("/bin", "usr/bin"), ("/etc/alternatives", "")))
PLACE = "/tmp/stockade-1-2-x"
ROOT = ("boot", "dev", "etc", "home", "proc", "run", "srv", "tmp", "usr")
LIMITS = dict.fromkeys(
    ("stack", "cpu_time", "file_size", "open_files", "processes", "memory", "wall_time"), "unlimited"
)
ACCEPT = dict.fromkeys(("syscalls", "network", "memory", "disk", "ipc"), "absent")


def _launch(policy: Policy, job: Job, command: Command, host=HOST):
    made = plan(policy, host, "firejail", capabilities(host, ENGINE), isolation=Isolation.NAMESPACES)
    return launch(made, job, command, engine=ENGINE, place=PLACE, root=ROOT)


def _policy(**fields) -> Policy:
    return Policy(accept=ACCEPT, **{"limits": LIMITS} | fields)


TRUE = (Job(argv=("true",)), Command(argv=("true",)))


def test_firejail_command_line_is_exact():
    policy = _policy(filesystem={"read": ["/srv/data"]})
    made = _launch(policy, Job(argv=("true",), files={"a": b"x"}), Command(argv=("true",)))
    assert made.argv == (
        "/usr/bin/firejail", "--quiet", "--noprofile", "--ipc-namespace", "--caps.drop=all", "--nonewprivs",
        "--nogroups", "--private-dev", "--no3d", "--nodvd", "--nosound", "--novideo", "--nou2f", "--noinput",
        "--noprinters", "--nodbus", "--deterministic-exit-code",
        "--deterministic-shutdown", "--notv", "--hostname=stockade", "--keep-fd=199,200,201", "--net=none", "--x11=none",
        f"--hosts-file={PLACE}/hosts", "--noroot", "--private-etc=alternatives,hosts,passwd,group", "--blacklist=/boot", "--blacklist=/home",
        "--whitelist=/run/firejail", f"--whitelist={PLACE}", "--whitelist=/srv/data",
        "--read-only=/dev", "--read-only=/proc", "--read-only=/tmp", "--read-only=/srv", f"--read-only={PLACE}/job",
        "--read-only=/srv/data", f"--read-write={PLACE}/tmp", f"--read-write={PLACE}/workspace",
        f"--private-cwd={PLACE}/workspace",
        "/usr/bin/python3", "-I", "-S", "-c", "exec(open(200).read()); main(201, 199)",
    )  # fmt: skip
    assert decode_steps(made.base) == (("session",), ("status", 199))
    assert made.steps[:7] == (
        ("place", PLACE), ("folder", f"{PLACE}/job", 0o755, False), ("folder", f"{PLACE}/tmp", 0o700, True),
        ("file", f"{PLACE}/hosts", OWN_NAMES, 0o644, False),
        ("folder", f"{PLACE}/workspace", 0o755, True), ("become_for_engine",), ("file", f"{PLACE}/workspace/a", b"x", 0o644, False),
    )  # fmt: skip
    assert [step[:2] for step in made.steps[7:]] == [("data", 200), ("data", 201)]
    assert json.loads(made.steps[8][2]) == {
        "argv": ["true"],
        "environment": {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
            "HOME": f"{PLACE}/tmp", "TMPDIR": f"{PLACE}/tmp",
        },
        "limits": [[8, 65536, 65536], [12, 0, 0], [14, 0, 0], [11, 1024, 1024]],
        "filter": "",
        "channel": False,
    }  # fmt: skip
    assert made.environment == {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    assert made.without_namespaces


def test_launch_by_root_adds_account_and_mount():
    host = replace(HOST, uid=0, privileged=True)
    made = _launch(_policy(limits=LIMITS | {"disk": "1MiB"}), *TRUE, host)
    assert decode_steps(made.base) == (("session",), ("status", 199), ("account", "/run/firejail"))
    assert made.steps[1] == ("sized_folder", PLACE, 1 << 20, 256 + 65)
    assert "--noroot" not in made.argv
    assert capabilities(host, ENGINE)[Guarantee.DISK].strength is Strength.KERNEL
    assert capabilities(HOST, ENGINE)[Guarantee.DISK].strength is Strength.ABSENT


def test_launch_with_workspace_network_and_channel():
    policy = _policy(network="host", filesystem={"workspace": "/srv/work", "write": ["/srv/work"]})
    argv = _launch(policy, Job(argv=("true",)), Command(argv=("true",), channel=True)).argv
    assert not {"--net=none", "--x11=none"} & set(argv)
    assert "--keep-fd=3,199,200,201" in argv
    assert "--whitelist=/srv/work" in argv
    assert not {"--read-only=/srv", "--read-only=/srv/work"} & set(argv)
    assert "--private-cwd=/srv/work" in argv


@pytest.mark.parametrize(("path", "why"), [
    ("/srv/a*", "accepts only letters"), ("/srv/a,b", "accepts only letters"), ("/srv/${HOME}", "accepts only letters"),
    ("/srv/a\nnet host", "accepts only letters"), ("/run/x", "replaces /run"),
    ("/etc/ssh", "replaces /etc"),
])  # fmt: skip
def test_path_firejail_misreads_is_refused(path, why):
    with pytest.raises(JobError, match=why):
        _launch(_policy(filesystem={"read": [path]}), *TRUE)


def _report(*progress: tuple[str, str, int], **fields):
    engine = b"".join(
        json.dumps(dict(zip(("progress", "reason", "errno"), each, strict=True))).encode() + b"\n" for each in progress
    )
    return report(**{"engine": engine} | fields)


@pytest.mark.parametrize(
    ("status", "expected"), [(0, 0), (3 << 8, 3 << 8), (137 << 8, 9), (255 << 8, 255 << 8), (9, 9)]
)
def test_translate_exit_status_of_guest(status, expected):
    found = translate(_report(("exec", "", 0), status=status), b"")
    assert (found.status, found.failure) == (expected, None)


def test_translate_failed_setup_is_a_setup_failure():
    found = translate(_report(status=1 << 8), b"Error: no such option\n")
    assert found.failure == Failure(kind="setup", message="Error: no such option")
    found = translate(_report(("setup", "prctl 22: Invalid argument", 0)), b"")
    assert found.failure == Failure(kind="setup", message="prctl 22: Invalid argument")
    assert translate(_report(engine=b"nonsense\n[1]\n{}"), b"").failure.message == "firejail ended without a message"


def test_translate_failed_exec_names_command():
    found = translate(_report(("exec", "", 0), ("not executed", "nosuch", 2)), b"")
    assert (found.failure, found.status) == (Failure(kind="exec", message="nosuch: command not found"), 127 << 8)
    found = translate(_report(("exec", "", 0), ("not executed", "/usr", 13)), b"")
    assert (found.failure, found.status) == (Failure(kind="exec", message="/usr: Permission denied"), 126 << 8)


def test_translate_killed_run_stays_unchanged():
    for fields in ({"cause": "wall_time"}, {"status": None}, {"oom_kills": 1}):
        assert translate(_report(**fields), b"").failure is None
