"""The exact bundle of a container of gVisor, what is refused, and the translation of runsc's end."""

import json
from dataclasses import replace

import pytest

from stockade import JobError, PlanError, Policy
from stockade.api import select
from stockade.backends import registry
from stockade.backends.base import planned
from stockade.backends.gvisor import runtime
from stockade.backends.gvisor.backend import Gvisor
from stockade.backends.gvisor.launching import translate
from stockade.core.launch import decode_steps
from stockade.planning.engines import Engine
from stockade.policy.guarantees import Guarantee, Isolation
from stockade.runs.job import Command, Job
from tests.unit import facts as hosts
from tests.unit.runs.test_verdict import report

BACKEND = Gvisor(engine=Engine("/usr/bin/runsc", (0, 0)))
HOST = replace(hosts.ROOT_V1, system=(("/usr", ""), ("/bin", "usr/bin"), ("/etc/passwd", "")))
BUNDLE = "/sys/fs/cgroup"
FIRST = [
    "/bin/sh", "-c",
    "cp -R /.stockade-files/. . 2>/dev/null || "
    "{ echo 'stockade: the files of the job cannot be copied' >&2; : >/.stockade-end; exit 125; }; "
    'exec 9>&2 2>/dev/null; trap : INT; (exec "$@" 2>&9 9>&- 3>/.stockade-result); status=$?; '
    ": >/.stockade-end; exit $status",
    "sh",
]  # fmt: skip
NAME = "/usr/bin/runsc"
PID = b"4711"


@pytest.fixture
def prepared():
    def prepare(job: Job, policy: Policy | None = None):
        plan = planned(BACKEND, policy or Policy(), HOST)
        with BACKEND.prepare(plan, job, lambda _: Command(argv=job.argv, channel=True)) as made:
            return made

    return prepare


def _bind(source, destination, *options):
    return {"destination": destination, "type": "bind", "source": source, "options": [*options, "nosuid", "nodev"]}


def _memory(destination, *options):
    return {
        "destination": destination,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", "nodev", *options],
    }


def _config(made):
    (content,) = [step[2] for step in made.steps if step[0] == "file" and step[1] == f"{BUNDLE}/config.json"]
    return json.loads(content)


def test_config_json_is_exact(prepared):
    limits = {"disk": "8MiB", "open_files": 100, "file_size": "1MiB", "stack": "unlimited", "processes": "unlimited"}
    made = prepared(Job(argv=("true",), files={"a": b"x"}, environment={"B": "2"}), Policy(limits=limits))
    assert _config(made) == {
        "ociVersion": "1.0.2",
        "hostname": "stockade",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 1000, "gid": 1000},
            "cwd": "/workspace",
            "args": [*FIRST, "true"],
            "env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "LANG=C.UTF-8", "HOME=/tmp", "TMPDIR=/tmp", "B=2",
            ],
            "noNewPrivileges": True,
            "capabilities": {"bounding": [], "effective": [], "inheritable": [], "permitted": [], "ambient": []},
            "rlimits": [
                {"type": "RLIMIT_NOFILE", "soft": 100, "hard": 100},
                {"type": "RLIMIT_FSIZE", "soft": 1 << 20, "hard": 1 << 20},
            ],
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev", "ro"]},
            _bind("/usr", "/usr", "rbind", "ro"),
            _bind("/etc/passwd", "/etc/passwd", "bind", "ro"),
            _memory("/tmp", "mode=1777", f"size={2 << 20}"),
            _memory("/dev/shm", "mode=1777", f"size={2 << 20}"),
            _memory("/workspace", "mode=755", "uid=1000", "gid=1000", f"size={(4 << 20) + 4096}"),
            _bind(f"{BUNDLE}/scratch/workspace", "/.stockade-files", "bind", "ro"),
            _bind(f"{BUNDLE}/channel/result", "/.stockade-result", "bind", "rw"),
            _bind(f"{BUNDLE}/channel/end", "/.stockade-end", "bind", "rw"),
        ],
        "linux": {"namespaces": [{"type": name} for name in ("mount", "pid", "ipc", "uts", "network")]},
    }  # fmt: skip


def test_command_line_groups_and_steps_are_exact(prepared):
    made = prepared(Job(argv=("true",)), Policy(limits={"memory": "64MiB", "processes": 10}))
    assert made.argv[4:] == (
        f"{BUNDLE}/channel", "channel", "/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--net",
        "/usr/bin/runsc", f"--root={BUNDLE}/state", "--rootless", "--platform=ptrace", "--network=none",
        "--ignore-cgroups", "--log=/proc/self/fd/199", "--log-format=json", "run", f"--bundle={BUNDLE}",
        "--pid-file=/proc/self/fd/199", "guest",
    )  # fmt: skip
    assert (made.groups.memory, made.groups.processes, made.without_namespaces) == (64 << 20, 266, True)
    assert not made.watch.counts_tasks
    assert ("sized_folder", f"{BUNDLE}/channel", 8 << 20, 4) in made.steps
    assert [step[0] for step in decode_steps(made.base)][:4] == ["session", "status", "become", "engine_mounts"]
    assert "cp -R" not in _config(made)["process"]["args"][2], "no files to copy"


def test_workspace_that_is_only_read_is_no_copy(prepared):
    made = prepared(Job(argv=("true",), files={"a": b"x"}), Policy(filesystem={"access": "read"}))
    found = _config(made)
    assert _bind(f"{BUNDLE}/scratch/workspace", "/workspace", "rbind", "ro") in found["mounts"]
    assert "cp -R" not in found["process"]["args"][2]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"network": "host"}, "network='host'"),
        ({"filesystem": {"read": ["/srv"]}}, "filesystem.read"),
        ({"filesystem": {"workspace": "/srv"}}, "filesystem.workspace"),
        ({"security": {"syscalls": "tight"}}, "security.syscalls"),
        ({"security": {"explain_denials": True}}, "security.explain_denials"),
        ({"security": {"read_only_root": False}}, "security.read_only_root"),
    ],
)
def test_policy_that_gvisor_would_ignore_is_refused_by_the_plan(fields, name):
    with pytest.raises(PlanError) as caught:
        planned(BACKEND, Policy(**fields), HOST)
    assert {*caught.value.missing} == {name}


@pytest.mark.parametrize("fields", [{"inputs": ("a",)}, {"artifacts": ("*",)}])
def test_job_that_needs_files_of_the_host_is_refused(prepared, fields):
    with pytest.raises(JobError, match="shares no folder"):
        prepared(Job(argv=("true",), **fields))


def test_plan_refuses_what_only_a_control_group_can_hold():
    with pytest.raises(PlanError) as caught:
        planned(BACKEND, Policy(), hosts.USER)
    assert {"memory", "processes", "cpu_time"} <= set(caught.value.missing)
    assert "only a control group around gVisor" in caught.value.missing["memory"]
    with pytest.raises(PlanError, match="private mappings"):
        planned(BACKEND, Policy(limits={"data": "64MiB"}), HOST)


def test_only_a_policy_that_asks_for_it_gets_gvisor(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # without a machine
    monkeypatch.setattr(runtime, "look", lambda: BACKEND.engine)
    for trust in (None, "trusted", "semi-trusted"):
        assert select.select(Policy(), HOST, trust).backend.name == "native"
    chosen = select.select(Policy(isolation="user_kernel"), HOST, "untrusted")
    assert (chosen.backend.name, registry.find("gvisor").isolation) == ("gvisor", Isolation.USER_KERNEL)
    with pytest.raises(PlanError, match="own_kernel"):
        select.require_isolation(BACKEND, Policy(), "untrusted")


def test_receipt_never_claims_the_policys_filter():
    held = planned(BACKEND, Policy(), HOST).enforcement
    assert "the policy's filter does not apply" in held[Guarantee.SYSCALLS].note
    assert "256 more threads" in held[Guarantee.PROCESSES].note


@pytest.mark.parametrize(("code", "status"), [(0, 0), (3, 3 << 8), (137, 9)])
def test_translate_exit_code_of_guest(code, status):
    found = translate(report(engine=PID, status=code << 8), b"", NAME)
    assert (found.status, found.failure) == (status, None)


@pytest.mark.parametrize(("refused", "cause", "failed"), [(0, None, True), (None, None, True), (3, "processes", False)])
def test_translate_gvisor_that_ended_before_the_guest(refused, cause, failed):
    found = translate(report(engine=PID, status=9, forks_refused=refused), b"", NAME)
    assert (found.cause, found.failure is not None) == (cause, failed)
    assert not failed or "gVisor ended before the guest" in found.failure.message


def test_translate_log_of_runsc_is_quoted():
    log = b'{"msg":"no mount","level":"error"}'
    assert translate(report(engine=log, status=9), b"", NAME).failure.message == f"{NAME}: no mount"


def test_translate_refused_forks_change_no_other_end():
    found = translate(report(engine=PID, status=2 << 8, forks_refused=3), b"", NAME)
    assert (found.cause, found.status) == (None, 2 << 8)
    assert translate(report(engine=PID, status=9, forks_refused=3, cause="wall_time"), b"", NAME).cause == "wall_time"


def test_translate_files_that_were_not_copied_is_setup_failure():
    words = b"stockade: the files of the job cannot be copied\n"
    assert translate(report(engine=PID, status=125 << 8), words, NAME).failure.kind == "setup"
    assert translate(report(engine=PID, status=1 << 8), words, NAME).failure is None
