"""bwrap's exact command line, and the translation of its status channel."""

from dataclasses import replace

import pytest

from stockade import Policy
from stockade.backends.bubblewrap.backend import launch, translate
from stockade.backends.bubblewrap.capabilities import capabilities
from stockade.core.launch import decode_steps
from stockade.core.report import Failure
from stockade.planning.engines import Engine
from stockade.planning.plan import plan
from stockade.policy.guarantees import Isolation
from stockade.runs.job import Command, Job
from tests.unit import facts as hosts
from tests.unit.runs.test_verdict import report

ENGINE = Engine("/usr/bin/bwrap", (0, 8, 0), frozenset({"--disable-userns"}))
HOST = replace(hosts.USER, seccomp=False, system=(("/usr", ""), ("/bin", "usr/bin")))
LIMITS = dict.fromkeys(
    ("stack", "cpu_time", "file_size", "open_files", "processes", "memory", "wall_time"), "unlimited"
)


def _launch(policy: Policy, job: Job, command: Command, *more: str):
    held = capabilities(HOST, ENGINE, more)
    made = plan(policy, HOST, "bubblewrap", held, isolation=Isolation.NAMESPACES)
    return launch(made, job, command, ENGINE, more)


def _policy(**fields):
    return Policy(accept={"syscalls": "absent", "network": "absent", "memory": "absent", "ipc": "absent"}, **fields)


def test_bwrap_command_line_is_exact():
    policy = _policy(limits=LIMITS | {"disk": "8MiB"}, filesystem={"read": ["/srv/data"]})
    made = _launch(policy, Job(argv=("true",), files={"a": b"x"}), Command(argv=("true",)), "--lock-file", "/x")
    assert made.argv == (
        "/usr/bin/bwrap", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts",
        "--unshare-cgroup-try", "--unshare-net", "--disable-userns",
        "--die-with-parent", "--new-session", "--json-status-fd", "199",
        "--uid", "1000", "--gid", "1000", "--hostname", "stockade",
        "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev", "/dev",
        "--size", "2097152", "--perms", "1777", "--tmpfs", "/tmp",
        "--size", "2097152", "--perms", "1777", "--tmpfs", "/dev/shm",
        "--size", "4194304", "--perms", "0755", "--tmpfs", "/workspace",
        "--ro-bind", "/srv/data", "/srv/data",
        "--perms", "0644", "--file", "200", "/etc/passwd", "--perms", "0644", "--file", "201", "/etc/group",
        "--perms", "0644", "--file", "202", "/etc/hostname", "--perms", "0644", "--file", "203", "/etc/gitconfig",
        "--perms", "0644", "--file", "204", "/etc/hosts", "--perms", "0644", "--file", "205", "/etc/nsswitch.conf",
        "--perms", "0644", "--file", "206", "/workspace/a",
        "--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/workspace",
        "--clearenv", "--args", "207", "--lock-file", "/x",
        "--", "true",
    )  # fmt: skip
    assert [step[:2] for step in decode_steps(made.base)] == [
        ("session",), ("status", 199), *(("data", number) for number in range(200, 206)), ("become",),
    ]  # fmt: skip
    assert made.steps[0] == ("data", 206, b"x")
    assert made.steps[1] == (
        "data", 207,
        b"--setenv\0PATH\0/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\0--setenv\0LANG\0C.UTF-8\0"
        b"--setenv\0HOME\0/tmp\0--setenv\0TMPDIR\0/tmp\0",
    )  # fmt: skip
    assert made.environment == {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    assert made.steps[2][1].keys() == {"memlock", "msgqueue", "rtprio", "sigpending"}
    assert made.without_namespaces


def test_limits_that_hinder_bwrap_are_set_inside():
    policy = _policy(limits=LIMITS | {"open_files": 8, "processes": 3, "disk": "unlimited"})
    argv = _launch(policy, Job(argv=("true",)), Command(argv=("true",))).argv
    assert argv[argv.index("--") + 1 :] == ("/usr/bin/prlimit", "--nproc=4:4", "--nofile=8:8", "--", "true")


def test_launch_with_workspace_and_host_network():
    policy = _policy(
        limits=LIMITS | {"disk": "unlimited"},
        network="host",
        filesystem={"workspace": "/srv/work", "write": ["/srv/work"]},
    )
    argv = _launch(policy, Job(argv=("true",)), Command(argv=("true",))).argv
    assert "--unshare-net" not in argv
    assert "--size" not in argv
    assert argv[argv.index("--bind") :][:3] == ("--bind", "/srv/work", "/srv/work")
    assert argv[argv.index("--chdir") + 1] == "/srv/work"


def _report(engine: bytes = b"", **fields):
    return report(**{"engine": engine} | fields)


@pytest.mark.parametrize(("status_channel", "status"), [
    (b'{ "child-pid": 7 }\n{ "exit-code": 0 }\n', 0),
    (b'{ "exit-code": 3 }\n', 3 << 8),
    (b'{ "exit-code": 137 }\n', 9),
    (b'{ "exit-code": 255 }\n', 255 << 8),
    (b'{ "exit-code": 300 }\n', 9),
    (b'{ "exit-code": -1 }\n', 9),
    (b'{ "exit-code": 2147483647 }\n', 9),
    (b'nonsense\n{ "exit-code": 1 }\n', 1 << 8),
])  # fmt: skip
def test_translate_exit_code_of_guest(status_channel, status):
    found = translate(_report(status_channel), b"")
    assert (found.status, found.failure) == (status, None)


def test_translate_without_exit_code_is_setup_failure():
    found = translate(_report(b'{ "child-pid": 7 }\n', status=1 << 8), b"bwrap: no permission\n")
    assert found.failure == Failure(kind="setup", message="bwrap: no permission")


def test_translate_killed_run_is_unchanged():
    for fields in ({"cause": "wall_time"}, {"status": None}, {"oom_kills": 1}):
        assert translate(_report(**fields), b"").failure is None


def test_translate_missing_command_is_named():
    stderr = b"prlimit: failed to execute nosuch: No such file or directory\n"
    found = translate(_report(b'{ "exit-code": 127 }'), stderr)
    assert found.failure == Failure(kind="exec", message="nosuch: command not found")
    assert translate(_report(b'{ "exit-code": 127 }'), stderr + b"more\n").failure is None
    assert translate(_report(b'{ "exit-code": 1 }'), stderr).failure is None
    found = translate(_report(b'{ "child-pid": 7 }', status=1 << 8), b"bwrap: execvp /usr: Permission denied\n")
    assert (found.failure.kind, found.status) == ("exec", 126 << 8)
