"""The report of a machine, the receipt of the backend, and the moment when it is chosen."""

import json
import marshal
from dataclasses import replace

import pytest

from stockade import BackendUnavailable, JobError, Outcome, PlanError, Policy
from stockade.api import select
from stockade.backends import registry
from stockade.backends.base import planned
from stockade.backends.microvm import build, image, machine
from stockade.backends.microvm.backend import MicroVM, translate
from stockade.core.launch import Launch
from stockade.policy.guarantees import Guarantee, Isolation, Strength
from stockade.runs.job import Command, Job
from stockade.runs.result import Met
from stockade.runs.verdict import verdict
from tests.unit import facts as hosts
from tests.unit.runs.test_verdict import report

INSIDE = replace(hosts.ROOT_V2, kernel="6.1.0-56-cloud-amd64", cpus=1)
BUILT = image.Image(
    state="/cache/state",
    memory=512,
    free=300 << 20,
    qemu="/usr/bin/qemu-system-x86_64",
    version="7.2.22",
    kernel="6.1.0-56-cloud-amd64",
    facts=INSIDE,
)
SAID = {
    "status": 0, "started": True, "peak_memory": 5, "peak_sockets": 0, "locks": 0, "past_soft_memory": None, "peak_processes": 2, "oom_kills": 0, "oom_outside": 0,
    "forks_refused": 3, "disk_free": 7, "inodes_free": 8, "cause": None, "failure": None, "output": [4, 0],
    "channel_overflow": False, "denials": [[41, 2, [2, 1, 0, 0, 0, 0]]], "denials_truncated": False,
}  # fmt: skip


@pytest.fixture
def built(monkeypatch):
    monkeypatch.setattr(image, "look", lambda: BUILT)


def translated(said, channel=b"", **outer):
    line = said if isinstance(said, bytes) else json.dumps(said).encode()
    return translate(report(channel=line + b"\n" + channel, **outer))


def test_report_of_machine_completes_that_of_the_host():
    found = translated(SAID | {"status": 3 << 8}, b'{"value": 1}', output=[9, 0], cpu_seconds=2.5)
    assert (found.status, found.peak_memory, found.forks_refused, found.disk_free) == (3 << 8, 5, 3, 7)
    assert (found.channel, found.cpu_seconds, found.output) == (b'{"value": 1}', 2.5, [9, 0])
    assert found.denials == [(41, 2, (2, 1, 0, 0, 0, 0))]


@pytest.mark.parametrize(
    "outer", [{"cause": "wall_time", "status": None}, {"oom_kills": 1}, {"oom_outside": 1}, {"cause": "cancelled"}]
)
def test_report_of_machine_changes_nothing_that_the_host_decided(outer):
    found = translated(SAID, b'{"value": 1}', **outer)
    assert (found.cause, found.status) == (outer.get("cause"), outer.get("status", 0))
    assert (found.oom_kills or 0, found.oom_outside or 0) == (outer.get("oom_kills", 0), outer.get("oom_outside", 0))
    assert (found.channel, found.denials) == (b"", ())


@pytest.mark.parametrize("kills", [0, None], ids=["counted", "sampled"])
def test_memory_of_qemu_is_not_taken_for_the_guests(built, kills):
    plan = planned(MicroVM(), Policy(limits={"memory": "48MiB"}), hosts.ROOT_V1)
    outer = report(cause="cancelled", status=None, peak_memory=400 << 20, peak_processes=9, oom_kills=kills)
    control = verdict(plan, outer, b"", b"")
    assert control.usage.peak_memory == 400 << 20
    assert kills == 0 or control.limit is Guarantee.MEMORY
    result = verdict(plan, translate(outer), b"", b"")
    assert (result.outcome, result.usage.peak_memory, result.usage.processes) == (Outcome.CANCELLED, None, None)
    assert result.limits_met[Guarantee.MEMORY].state is Met.UNKNOWN


@pytest.mark.parametrize(
    "said",
    [
        b"", b"[]", b"\xff", b"[" * 100_000, SAID | {"status": "0"}, SAID | {"status": True}, SAID | {"disk_free": -1},
        SAID | {"peak_memory": 1 << 70}, SAID | {"oom_kills": 0.5}, SAID | {"output": [1]}, SAID | {"failure": 1},
        SAID | {"denials": [1]}, SAID | {"status": 1 << 40}, SAID | {"denials": [[41, 1, []]]},
        SAID | {"denials": [[float("inf"), 1, [0] * 6]]}, {name: SAID[name] for name in SAID if name != "cause"},
    ],
    ids=range(16),
)  # fmt: skip
def test_nonsense_of_machine_is_a_failed_sandbox(said):
    found = translated(said)
    assert found.failure is not None
    assert found.failure.kind == "setup"


def test_machine_cannot_name_a_cause_that_the_host_decides():
    assert translated(SAID | {"cause": "memory"}).cause == "memory"
    for invented in ("wall_time", "cpu_time", "output", "caller_gone"):
        assert translated(SAID | {"cause": invented}).cause is None


def test_dead_machine_is_a_failed_sandbox():
    assert "QEMU ended" in translated({"trouble": "QEMU ended"}).failure.message
    assert "killed from outside" in translated(SAID, status=9).failure.message


def test_receipt_names_both_sandboxes_and_never_a_hypervisor(built):
    held = planned(MicroVM(), Policy(), hosts.ROOT_V1).enforcement
    assert "Linux 6.1.0-56-cloud-amd64 in QEMU 7.2.22" in held[Guarantee.SYSCALLS].mechanism
    assert "emulated (TCG)" in held[Guarantee.SYSCALLS].note
    assert "no network device" in held[Guarantee.NETWORK].mechanism
    assert "at most 832 MiB" in held[Guarantee.MEMORY].note
    assert Strength.HYPERVISOR not in {line.strength for line in held.values()}


def test_line_of_receipt_is_as_weak_as_the_weaker_sandbox(built):
    with pytest.raises(PlanError) as caught:
        planned(MicroVM(), Policy(), replace(hosts.ROOT_V1, seccomp=False))
    assert "syscalls" in caught.value.missing


def test_memory_beyond_the_machine_is_refused_by_the_plan(built):
    with pytest.raises(PlanError) as caught:
        planned(MicroVM(), Policy(limits={"memory": "301MiB"}), hosts.ROOT_V1)
    assert "the machine has 300 MiB for guests" in caught.value.missing["memory"]


@pytest.mark.parametrize(
    "fields", [{"network": "host"}, {"filesystem": {"read": ["/srv"]}}, {"security": {"host_uid": 5}}]
)
def test_paths_and_network_of_the_host_are_refused_by_the_plan(built, fields):
    with pytest.raises(PlanError, match="shares no folder"):
        planned(MicroVM(), Policy(accept={"network": "absent"}, **fields), hosts.ROOT_V1)


def test_job_that_needs_files_of_the_host_is_refused(built):
    with pytest.raises(JobError, match=r"^inputs: the microvm backend cannot give it: a machine shares no folder"):
        MicroVM().check(Job(argv=("a",), inputs=("b",)))


def test_times_are_kept_outside_and_other_limits_inside(built):
    policy = Policy(limits={"wall_time": 7, "cpu_time": 5, "processes": 4, "memory": "64MiB", "output": 1000})
    plan = planned(MicroVM(), policy, hosts.ROOT_V1)
    with MicroVM().prepare(plan, Job(argv=("a",)), lambda _: Command(argv=("a",))) as outer:
        assert (outer.watch.wall_seconds, outer.watch.cpu_seconds, outer.watch.output_bytes) == (7, 5, 1000)
        assert outer.groups.memory == 832 << 20
        [content] = [step[2] for step in outer.steps if step[0] == "job_file" and step[1] == "launch"]
    fields = marshal.loads(content)
    del fields["caller"]
    inner = Launch.from_wire(fields)
    assert (inner.argv, inner.groups.processes, inner.groups.memory) == (("a",), 4, 64 << 20)
    assert (inner.watch.wall_seconds, inner.watch.cpu_seconds) == (None, None)
    assert inner.watch.output_bytes > 1000


def test_only_untrusted_code_gets_a_machine(built, monkeypatch):
    monkeypatch.setattr(MicroVM, "availability", lambda self, facts: registry.find("native").availability(facts))
    assert select.select(Policy(), hosts.ROOT_V1, "untrusted").backend.name == "microvm"
    assert select.select(Policy(isolation="own_kernel"), hosts.ROOT_V1).backend.name == "microvm"
    for trust in (None, "trusted", "semi-trusted"):
        assert select.select(Policy(), hosts.ROOT_V1, trust).backend.name == "native"
    assert MicroVM.isolation is Isolation.OWN_KERNEL


def test_frames_are_taken_whole_and_bounded():
    frames = machine.Frames()
    data = machine.frame(machine.STDOUT, b"abc") + machine.frame(machine.END)
    assert [found for byte in data for found in frames.feed(bytes([byte]))] == [
        (machine.STDOUT, b"abc"),
        (machine.END, b""),
    ]
    with pytest.raises(machine.MachineError, match="too long"):
        frames.feed(machine.HEAD.pack(machine.STDOUT, 1 << 31))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return the folder of an image that lacks only the description."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = image.folder() / image.digest()
    assert "no machine is built" in image.look().trouble
    place.mkdir(0o755, parents=True)
    assert "no machine is built" in image.look().trouble
    image.about(place).write_text("{}")
    image.state(place).touch()
    assert "cannot be used" in image.look().trouble, "it passes the checks of owner and mode"
    return place


@pytest.mark.parametrize(
    ("which", "mode"),
    [("state", 0o666), ("state", 0o1666), ("about.json", 0o664), ("..", 0o777), ("../../..", 0o775)],
    ids=["state", "sticky-file", "description", "images", "cache"],
)
def test_image_that_others_may_write_is_refused(place, which, mode):
    (place / which).chmod(mode)
    assert "others may write to it" in image.look().trouble


def test_image_behind_links_is_checked_where_it_is(place, tmp_path, monkeypatch):
    shared, cache = tmp_path / "shared", tmp_path / "cache"
    shared.mkdir()
    (tmp_path / "link").symlink_to(cache.rename(shared / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    assert "cannot be used" in image.look().trouble
    shared.chmod(0o777)
    assert f"{shared}: others may write to it" in image.look().trouble
    shared.chmod(0o755)
    link = shared / "cache" / place.relative_to(cache) / "state"
    link.unlink()
    link.symlink_to("about.json")
    assert "not a file of" in image.look().trouble


def test_machine_is_not_built_where_others_may_write(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "_needed", lambda packages: ("", tmp_path, tmp_path))
    monkeypatch.setattr(build, "_write_ramdisk", lambda *_: pytest.fail("began"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(BackendUnavailable, match="others may write to it"):
        build.build()


def test_changed_code_and_changed_qemu_need_another_image(tmp_path, monkeypatch):
    for package in image.PACKAGES:
        (tmp_path / package).mkdir()
    code = tmp_path / "warden" / "a.py"
    code.write_text("a = 1")
    monkeypatch.setattr(image, "SOURCE", tmp_path)
    before = image.digest.__wrapped__()
    code.write_text("a = 2")
    assert image.digest.__wrapped__() != before
    qemu = tmp_path / "qemu"
    qemu.touch()
    assert "has changed" in image._image(tmp_path, {"qemu": str(qemu), "changed": 1}).trouble
