"""The plan for a podman as it describes itself, and docker's request in podman's words."""

import json
from pathlib import Path

import pytest

from stockade import JobError, Policy
from stockade.backends import registry
from stockade.backends.docker import engine as docker_engine
from stockade.backends.docker.engine import LocalImage
from stockade.backends.podman import engine
from stockade.backends.podman.backend import Podman
from stockade.linux.engine_api import EngineError
from stockade.planning.plan import plan
from stockade.policy.guarantees import Guarantee, Isolation, Strength
from stockade.runs.job import Command, Job
from tests.unit import facts as hosts

ALL = ("cpuset", "cpu", "cpuacct", "blkio", "memory", "devices", "freezer", "pids")


def asked(monkeypatch, controllers=ALL, *, rootless=False, version="4.3.1"):
    info = {
        "host": {
            "cgroupVersion": "v1",
            "cgroupControllers": controllers,
            "ociRuntime": {"name": "runc"},
            "security": {"rootless": rootless, "seccompEnabled": True},
        },
        "version": {"Version": version},
    }
    monkeypatch.setattr(engine, "ask", lambda *_, **__: info)
    engine._asked.cache_clear()
    return engine.look("/run/p.sock")


@pytest.fixture(autouse=True)
def fresh():
    yield
    engine._asked.cache_clear()
    docker_engine._asked.cache_clear()


def made(monkeypatch, policy=None, job=None, **fields):
    found = asked(monkeypatch)
    backend = Podman("x", socket=found.socket, **fields)
    policy = policy or Policy()
    planned = plan(
        policy, hosts.ROOT_V1, "podman", backend.capabilities(hosts.ROOT_V1, policy), isolation=Isolation.NAMESPACES
    )
    job = job or Job(argv=("a", "b"))
    return backend.order(
        planned, job, Command(argv=job.argv), image=LocalImage("sha256:1", ("/data",)), socket=found.socket
    )


def test_request_is_in_podmans_words(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (4, 20_000))
    small = {"stack": "8MiB", "cpu_time": 5, "file_size": "1MiB", "open_files": 100, "processes": 40, "disk": "64MiB"}
    policy = Policy(limits=small | {"memory": "128MiB", "soft_memory": "64MiB", "swap": 0, "cpu_rate": 0.5})
    order = made(monkeypatch, policy, security_opt=("apparmor=mine", "label=type:x"))
    body = json.loads(order.create)
    assert body["entrypoint"].pop(2).startswith("# The first process of a container")
    assert (order.interface, order.update) == ("podman", b"")
    scratch = ["rw", "exec", "nosuid", "nodev", "notmpcopyup"]
    shown = ["rbind", "ro", "nosuid", "nodev", "rprivate"]
    limits = {
        "core": (1, 1), "cpu": (7, 8), "fsize": (1 << 20, 1 << 20), "memlock": (1 << 16, 1 << 16), "msgqueue": (0, 0),
        "nofile": (100, 100), "nproc": (20_000, 20_000), "rtprio": (0, 0), "sigpending": (1024, 1024),
        "stack": (8 << 20, 8 << 20),
    }  # fmt: skip
    assert body == {
        "image": "sha256:1",
        "entrypoint": ["/bin/sh", "-c", "sh"],
        "unsetenv": ["TERM", "container"],
        "user": "1000:1000",
        "work_dir": "/workspace",
        "hostname": "stockade",
        "hostadd": [],
        "netns": {"nsmode": "none"},
        "ipcns": {"nsmode": "none"},
        "cgroupns": {"nsmode": "private"},
        "read_only_filesystem": True,
        "read_write_tmpfs": False,
        "cap_drop": ["ALL"],
        "no_new_privileges": True,
        "seccomp_profile_path": "seccomp.json",
        "apparmor_profile": "mine",
        "selinux_opts": ["type:x"],
        "log_configuration": {"driver": "none"},
        "healthconfig": {"Test": ["NONE"]},
        "image_volume_mode": "ignore",
        "stop_timeout": 0,
        "mounts": [
            {
                "destination": "/proc",
                "type": "proc",
                "source": "proc",
                "options": ["nosuid", "nodev", "noexec", "ro"],
            },
            *(
                {"destination": folder, "type": "tmpfs", "source": "tmpfs", "options": [*scratch, sizes]}
                for folder, sizes in (
                    ("/tmp", f"size={16 << 20},nr_inodes=4096,mode=1777"),
                    ("/dev/shm", f"size={16 << 20},nr_inodes=4096,mode=1777"),
                    ("/workspace", f"size={32 << 20},nr_inodes=8192,mode=755,uid=1000,gid=1000"),
                )
            ),
            {
                "destination": "/data",
                "type": "tmpfs",
                "source": "tmpfs",
                "options": ["ro", "noexec", "nosuid", "nodev", "notmpcopyup", "size=4096,mode=755"],
            },
            {"destination": "/.stockade", "type": "bind", "source": "channels", "options": shown},
            {"destination": "/etc/hosts", "type": "bind", "source": "hosts", "options": shown},
        ],
        "r_limits": [{"type": name, "soft": soft, "hard": hard} for name, (soft, hard) in limits.items()],
        "resource_limits": {
            "memory": {"limit": 128 << 20, "swap": 128 << 20, "reservation": 64 << 20},
            "cpu": {"period": 100_000, "quota": 50_000},
            "pids": {"limit": 41},
        },
    }
    assert json.loads(order.files["seccomp.json"][0])["defaultAction"] == "SCMP_ACT_ERRNO"
    assert order.files["hosts"] == (b"127.0.0.1\tlocalhost stockade\n::1\tlocalhost\n", 0o644)


def test_low_limits_are_set_after_the_start(monkeypatch):
    order = made(monkeypatch, Policy(limits={"processes": 3, "open_files": 8}))
    body = json.loads(order.create)
    assert (body["resource_limits"]["pids"], json.loads(order.update)) == ({"limit": 32}, {"pids": {"limit": 4}})
    assert {"type": "nofile", "soft": 64, "hard": 64} in body["r_limits"]


def test_network_of_host_keeps_podmans_hosts(monkeypatch):
    order = made(monkeypatch, Policy(network="host"))
    assert json.loads(order.create)["hostadd"] == ["stockade:127.0.0.1"]
    assert "hosts" not in order.files


def test_unknown_security_option_is_refused(monkeypatch):
    with pytest.raises(JobError, match=r"security_opt: 'unmask=ALL': the podman backend knows apparmor=, label= and"):
        made(monkeypatch, security_opt=("unmask=ALL",))


def test_missing_controller_is_an_absent_limit(monkeypatch):
    found = asked(monkeypatch, ("memory", "pids"), rootless=True)
    assert (
        found.lacks("CpuCfsQuota") == "a rootless engine at /run/p.sock has no CpuCfsQuota: it would ignore the limit"
    )
    held = Podman("x", socket="/run/p.sock").capabilities(hosts.ROOT_V1, Policy())
    assert held[Guarantee.CPU_RATE].strength is Strength.ABSENT
    assert held[Guarantee.MEMORY].mechanism == "podman 4.3.1: control group of the container, memory"


@pytest.mark.parametrize(
    ("change", "reason", "remedy"),
    [
        ({"controllers": [], "rootless": True}, "rootless podman on cgroup v1 without controllers", "as root"),
        ({"version": "4.2.0"}, "podman 4.2.0 cannot change", "install podman 4.3"),
    ],
)
def test_service_that_cannot_hold_limits_is_unusable(monkeypatch, change, reason, remedy):
    asked(monkeypatch, **change)
    found = Podman("x", socket="/run/p.sock").availability(hosts.ROOT_V1)
    assert not found.usable
    assert reason in found.reason
    assert remedy in found.remedy


def test_docker_engine_behind_the_socket_is_told(monkeypatch):
    def refuse(*_, **__):
        raise EngineError("/s: page not found", 404)

    monkeypatch.setattr(engine, "ask", refuse)
    assert engine.look("/s").trouble == "/s: the program behind it is not podman 4 or newer"
    monkeypatch.setattr(docker_engine, "ask", lambda *_, **__: {"ServerVersion": "4.3.1", "BuildahVersion": "1.28.2"})
    found = docker_engine.look("/s")
    assert found.trouble == "/s: the engine behind it is podman, whose requests differ"
    assert "backend='podman'" in found.remedy


def test_other_runtime_is_refused_with_remedy(monkeypatch):
    asked(monkeypatch)
    found = Podman("x", socket="/run/p.sock", runtime="crun").availability(hosts.ROOT_V1)
    assert "no runtime 'crun'; it has: runc" in found.reason
    assert "podman --runtime NAME system service" in found.remedy


def test_socket_is_that_of_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("CONTAINER_HOST", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert engine.default_socket() == "/run/podman/podman.sock"
    own = tmp_path / "podman/podman.sock"
    own.parent.mkdir()
    own.touch()
    assert engine.default_socket() == str(own)
    monkeypatch.setenv("CONTAINER_HOST", "unix:///a/b")
    assert engine.default_socket() == "/a/b"


def test_image_alone_takes_the_engine_that_is_there(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setenv("CONTAINER_HOST", f"unix://{tmp_path}/podman.sock")
    assert registry.find(None, "x").name == "docker"
    Path(tmp_path, "podman.sock").touch()
    assert registry.find(None, "x") == Podman("x")
    Path(tmp_path, "docker.sock").touch()
    assert registry.find(None, "x").name == "docker"


def test_missing_socket_is_named_with_remedy(tmp_path):
    found = Podman("x", socket=f"{tmp_path}/none").availability(hosts.ROOT_V1)
    assert found.reason == f"{tmp_path}/none: there is no such socket"
    assert "apt install podman" in found.remedy
