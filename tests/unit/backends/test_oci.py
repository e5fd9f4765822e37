"""The exact bundle of a container, and the translation of the runtime's log."""

import json
import shlex
from dataclasses import replace

import pytest

from stockade import JobError, Policy
from stockade.backends.oci.backend import launch, translate
from stockade.backends.oci.capabilities import capabilities
from stockade.core.launch import decode_steps
from stockade.core.report import Failure
from stockade.planning.engines import Engine
from stockade.planning.plan import plan
from stockade.policy.guarantees import Isolation
from stockade.runs.job import Command, Job
from stockade.runs.stdin_file import FileContent
from stockade.workspace.project import Entry, Project
from tests.unit import facts as hosts
from tests.unit.runs.test_verdict import report

ENGINE = Engine("/usr/bin/crun", (1, 8, 1))
HOST = replace(hosts.USER, seccomp=False, system=(("/usr", ""), ("/bin", "usr/bin"), ("/etc/passwd", "")))
LIMITS = dict.fromkeys(
    ("stack", "cpu_time", "file_size", "open_files", "processes", "memory", "wall_time"), "unlimited"
)
NAME = "/usr/bin/crun"
PID = b"4711"
ERROR = b'{"msg":"error stat\'ing file `/x`: No such file","level":"error","time":"2026-11-25T14:39:59Z"}\n'
BUNDLE = "/sys/fs/cgroup"
FIRST = [
    "/bin/sh", "-c",
    'exec 9>&2 2>/dev/null; is_whole=; . /.stockade-job; [ "$is_whole" ] || exit 125; trap : INT; '
    '(eval "$exports"; exec "$@" 2>&9 9>&-); exit $?',
    "sh",
]  # fmt: skip
PIPE = f"{BUNDLE}/rootfs/.stockade-job"


def _launch(policy: Policy, job: Job, host=HOST):
    made = plan(policy, host, "oci", capabilities(host, "crun", ENGINE), isolation=Isolation.NAMESPACES)
    return launch(made, job, Command(argv=job.argv), ENGINE)


def _policy(**fields):
    accept = dict.fromkeys(("syscalls", "network", "memory", "ipc", "disk"), "absent")
    return Policy(**{"accept": accept, "limits": LIMITS} | fields)


def _config(made):
    (content,) = [step[2] for step in _steps(made) if step[0] == "file" and step[1] == f"{BUNDLE}/config.json"]
    return json.loads(content)


def _steps(made):
    return (*decode_steps(made.base), *made.steps)


def _engine(made):
    (step,) = [step for step in _steps(made) if step[0] == "engine"]
    return step


def _code(made):
    assert made.steps[-1][0] == "engine_job"
    return made.steps[-1][1].decode()


def _bind(source, destination, *options):
    return {"destination": destination, "type": "bind", "source": source, "options": [*options]}


def _folder(source, destination):
    return _bind(source, destination, "rbind", "rro", "rnosuid", "rnodev")


def _writable(source, destination):
    return _bind(source, destination, "rbind", "rnosuid", "rnodev")


def test_config_json_is_exact():
    limits = LIMITS | {"disk": "8MiB"}
    job = Job(argv=("true",), files={"a": b"x"}, environment={"B": "2"})
    made = _launch(_policy(limits=limits, filesystem={"read": ["/srv"]}), job)
    mapping = [{"containerID": 1000, "hostID": 0, "size": 1}]
    assert _config(made) == {
        "ociVersion": "1.0.2",
        "hostname": "stockade",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 1000, "gid": 1000},
            "cwd": "/workspace",
            "args": FIRST,
            "env": [],
            "noNewPrivileges": True,
            "capabilities": {"bounding": [], "effective": [], "inheritable": [], "permitted": [], "ambient": []},
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev", "ro"]},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
             "options": ["nosuid", "noexec", "mode=755", "size=65536", "nr_inodes=64", "ro"]},
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
             "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=620", "max=32"]},
            _folder("/usr", "/usr"),
            _bind("/etc/passwd", "/etc/passwd", "bind", "ro", "nosuid", "nodev"),
            _writable(f"{BUNDLE}/scratch/tmp", "/tmp"),
            _writable(f"{BUNDLE}/scratch/shm", "/dev/shm"),
            _writable(f"{BUNDLE}/scratch/workspace", "/workspace"),
            _folder("/srv", "/srv"),
        ],
        "linux": {
            "uidMappings": mapping,
            "gidMappings": mapping,
            "namespaces": [{"type": name} for name in ("user", "mount", "pid", "ipc", "uts", "cgroup", "network")],
        },
    }  # fmt: skip


def test_command_line_and_steps_are_exact():
    made = _launch(_policy(limits=LIMITS | {"disk": "8MiB"}), Job(argv=("true",), files={"a": b"x"}))
    assert _engine(made) == ("engine", PIPE, (
        "/usr/bin/crun", f"--root={BUNDLE}/state", "--cgroup-manager=disabled", "--log=file:/proc/self/fd/199",
        "--log-format=json", "run", "--no-new-keyring", f"--bundle={BUNDLE}", "--pid-file=/proc/self/fd/199", "guest",
    ), {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "_LIBCONTAINER_STATEDIR": BUNDLE}, True)  # fmt: skip
    assert (made.argv, made.environment) == (("true",), {})
    steps = [step[:3] for step in decode_steps(made.base)]
    assert [step[0] for step in steps[-3:]] == ["file", "limits", "engine"]
    assert steps[-2][1].keys() == {"memlock", "msgqueue", "rtprio", "sigpending"}
    assert steps[:7] == [
        ("session",), ("status", 199, True), ("become",), ("engine_mounts", BUNDLE, 1 << 30),
        ("folder", f"{BUNDLE}/rootfs", 0o755), ("folder", f"{BUNDLE}/scratch", 0o755),
        ("sized_folder", f"{BUNDLE}/scratch", (8 << 20) + 4096),
    ]  # fmt: skip
    assert ("link", f"{BUNDLE}/rootfs/bin", "usr/bin") in steps
    assert made.steps[0] == ("file", f"{BUNDLE}/scratch/workspace/a", b"x", 0o644, False)
    assert [step[0] for step in made.steps[1:]] == ["engine_job"]
    assert made.without_namespaces


def test_job_is_code_for_the_first_shell():
    made = _launch(_policy(), Job(argv=("echo", "it's", "a\nb"), environment={"B": "x'y"}))
    exports = (
        "command export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; command export LANG=C.UTF-8; "
        "command export HOME=/tmp; command export TMPDIR=/tmp; command export B='x'\"'\"'y'"
    )
    assert _code(made) == f"exports={shlex.quote(exports)}\nset -- echo 'it'\"'\"'s' 'a\nb'\nis_whole=yes\n"


def test_base_of_waiting_container_has_nothing_of_the_job():
    bases = {
        _launch(_policy(), job).base
        for job in (
            Job(argv=("true",)),
            Job(argv=("other", "words"), environment={"B": "2"}),
            Job(argv=("a",), stdin=b"x"),
        )
    }
    assert len(bases) == 1
    assert _launch(_policy(limits=LIMITS | {"file_size": "1MiB"}), Job(argv=("true",))).base not in bases


@pytest.mark.parametrize(
    ("job", "fields"),
    [
        (Job(argv=("true",)), {"filesystem": {"read": ["/srv"]}}),
        (Job(argv=("true",)), {"filesystem": {"workspace": "/srv"}}),
        (Job(argv=("true",)), {"network": "host"}),
        (Job(argv=("true",), inputs=("a",)), {}),
        (Job(argv=("true",), stdin=FileContent(b"x")), {}),
    ],
    ids=["read", "workspace", "network", "inputs", "stdin"],
)
def test_container_with_paths_of_the_host_never_waits(job, fields):
    made = _launch(_policy(**fields), job)
    assert _engine(made)[-1] is False
    assert _engine(made) in made.steps


def test_filter_is_passed_as_program():
    host = replace(HOST, seccomp=True)
    config = _config(_launch(_policy(accept={"memory": "absent"}), Job(argv=("true",)), host))
    assert set(config["annotations"]) == {"run.oci.seccomp_bpf_data"}


def test_limits_that_hinder_the_runtime_are_set_inside():
    limits = LIMITS | {"open_files": 8, "file_size": "1KiB", "processes": 3}
    code = _code(_launch(_policy(limits=limits), Job(argv=("true",))))
    assert "\nset -- /usr/bin/prlimit --nproc=4:4 --nofile=8:8 --fsize=1024:1024 -- true\n" in code


def test_network_of_the_host_needs_no_namespace():
    config = _config(_launch(_policy(network="host"), Job(argv=("true",))))
    assert {"type": "network"} not in config["linux"]["namespaces"]


def test_copy_is_shown_with_protected_paths_read_only():
    entry = Entry(0o100644, 1, 1, 1, 1)
    project = Project("/srv", "copy", {"secret": False}, ("sub/a",), (), {"sub/a": entry})
    policy = _policy(filesystem={"workspace": "/srv", "access": "copy"})
    config = _config(_launch(policy, Job(argv=("true",), project=project)))
    copy = f"{BUNDLE}/scratch/copy"
    assert config["mounts"][-3:] == [
        _writable(copy, "/srv"),
        _writable(f"{copy}/sub", "/srv/sub"),
        _bind(f"{copy}/sub/a", "/srv/sub/a", "bind", "ro", "nosuid", "nodev"),
    ]
    assert "maskedPaths" not in config["linux"]


def test_hidden_paths_of_a_shown_project_are_masked():
    project = Project("/srv", "read", {"secret": False})
    policy = _policy(filesystem={"workspace": "/srv"})
    config = _config(_launch(policy, Job(argv=("true",), project=project)))
    assert config["linux"]["maskedPaths"] == ["/srv/secret"]


@pytest.mark.parametrize("job", [
    Job(argv=("echo", "\udcff")),
    Job(argv=("true",), environment={"A": "\udcff"}),
])  # fmt: skip
def test_bytes_that_json_cannot_hold_are_refused(job):
    with pytest.raises(JobError, match="UTF-8"):
        _launch(_policy(), job)


def test_variable_that_a_shell_drops_is_refused():
    with pytest.raises(JobError, match=r"environment: 'a\.b'"):
        _launch(_policy(), Job(argv=("true",), environment={"a.b": "1"}))


@pytest.mark.parametrize(("code", "status"), [(0, 0), (3, 3 << 8), (137, 9), (255, 255 << 8)])
def test_translate_exit_code_of_guest(code, status):
    found = translate(report(engine=PID, status=code << 8), b"", NAME)
    assert (found.status, found.failure) == (status, None)


def test_translate_error_in_log_is_setup_failure():
    for log in (ERROR, PID + ERROR, b'{"level":"warning","msg":"w"}\n' + ERROR):
        found = translate(report(engine=log, status=1 << 8), b"", NAME)
        assert found.failure == Failure(kind="setup", message=f"{NAME}: error stat'ing file `/x`: No such file")


def test_translate_runtime_that_started_nothing_is_setup_failure():
    found = translate(report(status=0), b"odd\n", NAME)
    assert found.failure == Failure(kind="setup", message=f"{NAME}: odd")
    hanging = translate(report(cause="wall_time", status=None), b"", NAME)
    assert hanging.failure is not None and "had not started when the limit on wall_time" in hanging.failure.message


def test_translate_killed_runtime_is_setup_failure():
    found = translate(report(engine=PID, status=9), b"", NAME)
    assert found.failure is not None and "signal 9 from outside ended the runtime" in found.failure.message


def test_translate_killed_run_is_unchanged():
    for fields in ({"cause": "wall_time"}, {"status": None}, {"oom_kills": 1}, {"cause": "cancelled", "engine": b""}):
        assert translate(report(**{"engine": PID} | fields), b"", NAME).failure is None


@pytest.mark.parametrize(("stderr", "code", "message"), [
    (b"sh: 1: exec: nosuch: not found\n", 127, "nosuch: command not found"),
    (b"sh: 1: exec: /usr: Permission denied\n", 126, "/usr: Permission denied"),
    (b"sh: line 1: exec: nosuch: not found\n", 127, "nosuch: command not found"),
    (b"sh: line 1: /usr: Is a directory\nsh: line 1: exec: /usr: cannot execute: Is a directory\n", 126, "/usr: Is a directory"),
    (b"prlimit: failed to execute nosuch: No such file or directory\n", 127, "nosuch: command not found"),
])  # fmt: skip
def test_translate_missing_command_is_named(stderr, code, message):
    found = translate(report(engine=PID, status=code << 8), stderr, NAME)
    assert (found.failure, found.status) == (Failure(kind="exec", message=message), code << 8)
