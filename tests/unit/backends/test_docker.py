"""The exact request for a container, and what an engine's own words mean for the plan."""

import json
import subprocess
from dataclasses import replace

import pytest

from stockade import JobError, PlanError, Policy
from stockade.backends.docker import engine
from stockade.backends.docker.backend import Docker, launch
from stockade.backends.docker.capabilities import capabilities
from stockade.backends.docker.engine import ContainerEngine, LocalImage
from stockade.planning.plan import plan
from stockade.policy.guarantees import Guarantee, Isolation, Strength
from stockade.runs.job import Command, Job
from tests.unit import facts as hosts

ALL = {"MemoryLimit": True, "SwapLimit": True, "PidsLimit": True, "CpuCfsQuota": True}
ENGINE = ContainerEngine("/run/e.sock", "20.10.24", ALL, ("runc", "runsc"), ("name=seccomp,profile=default",))
ROOTLESS = replace(ENGINE, limits={}, security=("name=seccomp,profile=default", "name=rootless"))
DIGEST = "sha256:" + "1" * 64
IMAGE = LocalImage(DIGEST)
SMALL = {"stack": "8MiB", "cpu_time": 5, "file_size": "1MiB", "open_files": 100, "processes": 40, "disk": "64MiB"}


def made(policy, job, found=ENGINE, command=None, backend=None, image=IMAGE):
    held = capabilities(hosts.ROOT_V1, found, ())
    planned = plan(policy, hosts.ROOT_V1, "docker", held, isolation=Isolation.NAMESPACES)
    own = backend or Docker("x")
    return launch(own, planned, job, command or Command(argv=job.argv), image=image, found=found)


def shell_code(order):
    """Return the shell code that sets the job of the container's first process."""
    return order.job["channels/command"][0].decode()


def test_request_is_exact():
    policy = Policy(limits=SMALL | {"memory": "128MiB", "soft_memory": "64MiB", "swap": 0, "cpu_rate": 0.5})
    order = made(
        policy, Job(argv=("a", "b")), backend=Docker("x", runtime="runsc", security_opt=("apparmor=mine",))
    ).container
    body = json.loads(order.create)
    profile = body["HostConfig"]["SecurityOpt"][1].removeprefix("seccomp=")
    assert json.loads(profile)["defaultAction"] == "SCMP_ACT_ERRNO"
    script = body["Entrypoint"].pop(2)
    assert script.startswith("# The first process of a container")
    assert order.socket == "/run/e.sock"
    assert order.update == b""
    scratch = "rw,exec,nosuid,nodev,size={},nr_inodes={},{}"
    assert body == {
        "Image": DIGEST,
        "Entrypoint": ["/bin/sh", "-c", "sh"],
        "User": "1000:1000",
        "WorkingDir": "/workspace",
        "Hostname": "stockade",
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "ExtraHosts": ["stockade:127.0.0.1"],
            "NetworkMode": "none",
            "IpcMode": "none",
            "CgroupnsMode": "private",
            "ReadonlyRootfs": True,
            "ReadonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/proc"],
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true", f"seccomp={profile}", "apparmor=mine"],
            "LogConfig": {"Type": "none"},
            "RestartPolicy": {"Name": "no"},
            "Runtime": "runsc",
            "Memory": 128 << 20,
            "MemorySwap": 128 << 20,
            "MemoryReservation": 64 << 20,
            "NanoCpus": 500_000_000,
            "PidsLimit": 41,
            "Tmpfs": {
                "/tmp": scratch.format(16 << 20, 4096, "mode=1777"),
                "/dev/shm": scratch.format(16 << 20, 4096, "mode=1777"),
                "/workspace": scratch.format(32 << 20, 8192, "mode=755,uid=1000,gid=1000"),
            },
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": "channels",
                    "Target": "/.stockade",
                    "ReadOnly": True,
                    "BindOptions": {"Propagation": "rprivate"},
                }
            ],
            "Ulimits": [
                {"Name": "core", "Soft": 1, "Hard": 1},
                {"Name": "cpu", "Soft": 7, "Hard": 8},
                {"Name": "fsize", "Soft": 1 << 20, "Hard": 1 << 20},
                {"Name": "memlock", "Soft": 1 << 16, "Hard": 1 << 16},
                {"Name": "msgqueue", "Soft": 0, "Hard": 0},
                {"Name": "nofile", "Soft": 100, "Hard": 100},
                {"Name": "rtprio", "Soft": 0, "Hard": 0},
                {"Name": "sigpending", "Soft": 1024, "Hard": 1024},
                {"Name": "stack", "Soft": 8 << 20, "Hard": 8 << 20},
            ],
        },
    }


def test_low_limits_are_set_after_the_start():
    policy = Policy(limits=SMALL | {"processes": 3, "open_files": 8, "data": "64MiB", "address_space": "128MiB"})
    order = made(policy, Job(argv=("a",))).container
    body = json.loads(order.create)
    assert body["HostConfig"]["PidsLimit"] == 32
    assert json.loads(order.update) == {"PidsLimit": 4}
    assert f"limits='-v={128 << 10} -d={64 << 10} -n=8'\n" in shell_code(order)
    assert not {"as", "data", "nofile"} & {each["Name"] for each in body["HostConfig"]["Ulimits"]}


def test_files_of_job_lie_in_the_runs_folder():
    command = Command(argv=("sh", "/job/main.sh"), files={"/job/main.sh": b"true"})
    order = made(
        Policy(), Job(argv=("x",), files={"a/b": b"1"}, executables=frozenset({"a/b"})), command=command
    ).container
    assert order.files == {}
    assert {name: each for name, each in order.job.items() if name != "channels/command"} == {
        "job/main.sh": (b"true", 0o644),
        "channels/workspace/a/b": (b"1", 0o755),
    }
    assert [each["Target"] for each in json.loads(order.create)["HostConfig"]["Mounts"]] == ["/.stockade", "/job"]
    assert order.folders == ("channels", "job")


def test_jobs_differ_in_what_comes_with_the_job_alone(monkeypatch):
    monkeypatch.setenv("INHERITED", "it's\nnew")
    before = made(Policy(), Job(argv=("a",))).container
    policy = Policy(environment={"inherit": ["INHERITED"]})
    after = made(policy, Job(argv=("b", "$x; c"), environment={"A": "B"}, stdin=b"1")).container
    assert after.without_job() == before.without_job()
    assert b"INHERITED" not in after.create
    found = subprocess.run(
        ["sh", "-c", f'{shell_code(after)}\neval "$exports"; printf %s "$1|$2|$A|$INHERITED|$channel|$limits"'],
        stdout=subprocess.PIPE,
        check=True,
    )
    assert found.stdout == b"b|$x; c|B|it's\nnew|no|"


@pytest.mark.parametrize(
    ("policy", "job", "image"),
    [
        (Policy(limits={"memory": "200MiB"}), Job(argv=("a",)), IMAGE),
        (Policy(security={"uid": 4321}), Job(argv=("a",)), IMAGE),
        (Policy(network="host"), Job(argv=("a",)), IMAGE),
        (Policy(), Job(argv=("a",), files={"b": b"1"}), IMAGE),
        (Policy(), Job(argv=("a",)), LocalImage("sha256:" + "2" * 64)),
    ],
)
def test_another_policy_or_image_gets_another_container(policy, job, image):
    usual = made(Policy(), Job(argv=("a",))).container
    assert made(policy, job, image=image).container.without_job() != usual.without_job()


def test_container_that_shows_the_host_does_not_wait(tmp_path):
    assert made(Policy(), Job(argv=("a",))).container.prewarm == 4
    shown = Policy(filesystem={"read": [str(tmp_path)]})
    assert made(shown, Job(argv=("a",))).container.prewarm == 0


def test_volumes_of_image_are_covered():
    order = made(Policy(), Job(argv=("x",)), image=LocalImage(DIGEST, ("/data", "/tmp"))).container
    tmpfs = json.loads(order.create)["HostConfig"]["Tmpfs"]
    assert tmpfs["/data"] == "ro,noexec,nosuid,nodev,size=4096,mode=755"
    assert tmpfs["/tmp"].startswith("rw,")


def test_path_of_image_stays_unless_set():
    assert "PATH=" not in shell_code(made(Policy(), Job(argv=("x",))).container)
    own = shell_code(made(Policy(environment={"set": {"PATH": "/own"}}), Job(argv=("x",))).container)
    assert "path=/own\n" in own
    assert "command export PATH=/own" in own


@pytest.mark.parametrize("limit", ["MemoryLimit", "SwapLimit", "PidsLimit", "CpuCfsQuota"])
def test_limit_that_engine_ignores_is_absent(limit):
    lacking = replace(ENGINE, limits=ALL | {limit: False})
    guarantee = {
        "MemoryLimit": Guarantee.MEMORY,
        "SwapLimit": Guarantee.SWAP,
        "PidsLimit": Guarantee.PROCESSES,
        "CpuCfsQuota": Guarantee.CPU_RATE,
    }[limit]
    held = capabilities(replace(hosts.ROOT_V1, swap=True), lacking, ())[guarantee]
    assert held.strength is Strength.ABSENT
    assert f"has no {limit}: it would ignore the limit" in held.note


def test_rootless_engine_without_limits_is_refused():
    with pytest.raises(PlanError, match=r"memory: .*a rootless engine at /run/e.sock has no MemoryLimit"):
        made(Policy(), Job(argv=("x",)), ROOTLESS)


def test_engine_without_filter_is_absent():
    held = capabilities(hosts.ROOT_V1, replace(ENGINE, security=()), ())
    assert held[Guarantee.SYSCALLS].strength is Strength.ABSENT
    held = capabilities(hosts.ROOT_V1, ENGINE, ("seccomp=unconfined",))
    assert held[Guarantee.SYSCALLS].strength is Strength.ABSENT


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"security": {"uid": 0}}, r"security.uid=0"),
        ({"security": {"syscalls": "tight"}}, "refuses fork"),
        ({"security": {"read_only_root": False}}, "read_only_root"),
        ({"security": {"host_uid": 5}}, "host_uid"),
        ({"security": {"explain_denials": True}}, "explain_denials"),
        ({"limits": {"memory": "5MiB"}}, "no limit below 6 MiB"),
    ],
)
def test_option_that_engine_lacks_is_refused(fields, text):
    policy = Policy(**fields)
    planned = plan(
        policy, hosts.ROOT_V1, "docker", capabilities(hosts.ROOT_V1, ENGINE, ()), isolation=Isolation.NAMESPACES
    )
    with (
        pytest.raises(JobError, match=text),
        Docker("x").prepare(planned, Job(argv=("x",)), lambda _: Command(argv=("x",))),
    ):
        pass


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(JobError, match="not UTF-8"):
        made(Policy(), Job(argv=("a\udcff",)))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"prewarm": -1}, "prewarm = -1: .*from 0 to"),
        ({"prewarm": True}, "prewarm = True"),
        ({"prewarm": 1000}, "prewarm = 1000"),
        ({"idle_seconds": 0}, "idle_seconds = 0: above 0"),
        ({"idle_seconds": float("nan")}, "idle_seconds = nan"),
    ],
)
def test_impossible_bounds_of_waiting_are_refused(fields, words):
    with pytest.raises(JobError, match=words):
        Docker("x", **fields)


def test_socket_is_that_of_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert engine.default_socket() == "/var/run/docker.sock"
    (tmp_path / "docker.sock").touch()
    assert engine.default_socket() == f"{tmp_path}/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", "unix:///a/b")
    assert engine.default_socket() == "/a/b"
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    assert "no Unix socket" in engine.look(engine.default_socket()).trouble


def test_missing_socket_is_named_with_remedy(tmp_path):
    found = Docker("x", socket=f"{tmp_path}/none").availability(hosts.ROOT_V1)
    assert not found.usable
    assert found.reason == f"{tmp_path}/none: there is no such socket"
    assert "apt install docker.io" in found.remedy


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("python", ("python", "latest")),
        ("python:3.12", ("python", "3.12")),
        ("host:5000/python", ("host:5000/python", "latest")),
        ("python@sha256:12", ("python", "sha256:12")),
    ],
)
def test_image_name_has_one_tag(image, parts):
    assert engine._split(image) == parts
