"""Optional limits: the values that a policy takes, and their effect on launch, meter and verdict."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stockade import Guarantee, PlanError, Policy, PolicyError, Strength, resolve
from stockade.backends.native.capabilities import capabilities
from stockade.backends.shared import limits
from stockade.cli.toml import policy_as_toml
from stockade.core.launch import Watch
from stockade.linux.cgroups import disks
from stockade.planning.figures import asked
from stockade.planning.plan import plan
from stockade.runs.result import Met
from stockade.runs.verdict import verdict
from stockade.warden.run.meter import Meter
from tests.unit import facts as hosts
from tests.unit.runs.test_verdict import report

MIB = 1 << 20


def _refusal(**fields: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        Policy(limits=fields)
    (problem,) = caught.value.problems
    return f"{problem.field}: {problem.reason}"


@pytest.mark.parametrize("fields", [{"soft_memory": "256MiB"}, {"soft_memory": "65MiB", "memory": "65MiB"}])
def test_soft_memory_at_or_above_memory_is_refused(fields):
    figure = fields.get("memory", "256MiB").replace("MiB", " MiB")
    assert _refusal(**fields) == f"limits.soft_memory: must be below limits.memory, {figure}, at which the run ends"


def test_soft_memory_without_memory_limit_accepted():
    assert Policy(limits={"soft_memory": "1TiB", "memory": "unlimited"}).limits.soft == 1 << 40
    assert Policy().limits.soft is None


@pytest.mark.parametrize("name", ["soft_memory", "address_space", "data", "io_read"])
def test_limit_too_small_to_start_is_refused(name):
    assert "must be at least" in _refusal(**{name: 1})


def test_launch_unset_limits_are_absent():
    assert not {"as", "data"} & set(limits.rlimits(Policy(), hosts.ROOT_V1))
    assert limits.watch(Policy(), hosts.ROOT_V1).soft_memory is None


def test_resource_limit_on_cpu_time_lies_beyond_what_ticks_add():
    soft, hard = limits.rlimits(Policy(limits={"cpu_time": 30}), hosts.ROOT_V1)["cpu"]
    assert 30 * 1.2 < soft < hard  # on a busy machine, ticks run ahead of the time


@pytest.mark.parametrize(
    ("facts", "data", "expected"),
    [(hosts.ROOT_V1, 128, 128), (hosts.USER, 128, 64), (hosts.USER, 32, 32), (hosts.USER, None, 64)],
)
def test_data_without_cgroup_takes_smaller_figure(facts, data, expected):
    policy = Policy(limits={"memory": "64MiB", "data": "unlimited" if data is None else f"{data}MiB"})
    assert limits.rlimits(policy, facts)["data"] == (expected * MIB, expected * MIB)


def test_address_space_becomes_rlimit_as():
    assert limits.rlimits(Policy(limits={"address_space": "1GiB"}), hosts.USER)["as"] == (1 << 30, 1 << 30)


def test_limits_shown_in_toml_have_units():
    found = resolve(variables={}, limits={"soft_memory": "64MiB", "address_space": "1GiB"})
    policy, text = found.policy, policy_as_toml(found)
    assert 'soft_memory = "64MiB"' in text and 'address_space = "1GiB"' in text
    assert asked(policy, Guarantee.MEMORY) == "256 MiB, soft 64 MiB"
    assert asked(policy, Guarantee.ADDRESS_SPACE) == "1 GiB"


class _Group:
    counts_memory = counts_cpu = in_tree = True

    def __init__(self, *held: int) -> None:
        self._held = iter(held)

    def memory_held(self, _concern: int) -> int:
        return next(self._held)

    def cpu_seconds(self) -> float:
        return 0.0

    def oom_kills(self) -> int:
        return 0

    def look(self) -> None:
        """Count nothing."""


def test_meter_past_soft_memory_reports_once():
    execution = SimpleNamespace(own_tasks=2, head=os.getpid(), group=_Group(10 * MIB, 41 * MIB, 90 * MIB))
    meter = Meter(Watch(soft_memory=40 * MIB), cast(Any, execution))
    meter.start(time.monotonic(), 0.0, 0)
    assert meter.next_look < meter._begin + 0.021
    assert [meter.look(0.0) for _ in range(3)] == [[], [("memory", "soft", 41 * MIB, 40 * MIB)], []]
    assert meter._past_soft == 41 * MIB


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"past_soft_memory": 41 * MIB}, Met.MET),
        ({"peak_memory": 39 * MIB}, Met.NOT_MET),
        ({"peak_memory": 41 * MIB}, Met.UNKNOWN),
        ({"peak_memory": 39 * MIB, "oom_kills": None}, Met.UNKNOWN),
        ({"oom_kills": 1, "status": None}, Met.MET),
    ],
)
def test_soft_memory_state_claims_only_evidence(fields, state):
    policy = Policy(limits={"soft_memory": "40MiB"})
    made = plan(policy, hosts.ROOT_V1, "native", capabilities(hosts.ROOT_V1))
    told = verdict(made, report(**{"past_soft_memory": None} | fields), b"", b"").soft_memory
    assert told is not None and told.state is state


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"peak_memory": 10 * MIB, "peak_sockets": 0}, Met.NOT_MET),
        ({"peak_memory": 10 * MIB, "peak_sockets": 20 * MIB}, Met.NOT_MET),
        ({"peak_memory": 20 * MIB, "peak_sockets": 30 * MIB}, Met.UNKNOWN),
        ({"peak_memory": 40 * MIB, "peak_sockets": 0}, Met.UNKNOWN),
        ({"peak_memory": 10 * MIB, "peak_sockets": None}, Met.UNKNOWN),
        ({"peak_memory": 10 * MIB, "peak_sockets": None, "oom_kills": 1}, Met.MET),
        ({"peak_memory": 10 * MIB, "peak_sockets": 40 * MIB, "cause": "memory"}, Met.MET),
    ],
)
def test_memory_state_is_not_met_only_if_proved(fields, state):
    policy = Policy(limits={"memory": "40MiB"})
    made = plan(policy, hosts.ROOT_V1, "native", capabilities(hosts.ROOT_V1))
    assert verdict(made, report(**fields), b"", b"").limits_met[Guarantee.MEMORY].state is state


@pytest.mark.parametrize(
    ("missing", "words"),
    [("sockets", "no control group counts buffers of TCP"), ("kernel", "kernel memory is not counted here")],
)
def test_memory_receipt_names_kinds_not_counted(missing, words):
    for host in (hosts.ROOT_V1, hosts.ROOT_V2):
        less = {name: version for name, version in host.cgroups.items() if name != missing}
        assert words in limits.held(replace(host, cgroups=less))[Guarantee.MEMORY].note
        assert words not in limits.held(host)[Guarantee.MEMORY].note


@pytest.mark.parametrize(("version", "strength"), [(2, Strength.KERNEL), (1, Strength.KERNEL), (None, Strength.ABSENT)])
def test_io_read_strength_needs_a_cgroup(version, strength):
    facts = replace(hosts.ROOT_V1, cgroups={} if version is None else {"io": version})
    assert limits.held(facts)[Guarantee.IO_READ].strength is strength


def test_io_read_is_launched_and_shown_as_rate():
    policy = Policy(limits={"io_read": "4MiB"})
    assert limits.groups(policy).io_read == 4 * MIB
    assert limits.groups(Policy()).io_read is None
    assert asked(policy, Guarantee.IO_READ) == "4 MiB/s"


@pytest.mark.parametrize(
    ("place", "shown"),
    [("/srv/share", "/srv/share/data"), ("/srv/share/data/nfs", "/srv/share/data"), ("/usr", "/usr"), ("/", "/usr")],
)
def test_io_read_path_on_no_disk_is_refused(place, shown):
    facts = replace(hosts.ROOT_V2, cgroups=hosts.ROOT_V2.cgroups | {"io": 2}, off_disk=(place,))
    policy = Policy(limits={"io_read": "4MiB"}, filesystem={"read": ["/srv/share/data"]})
    with pytest.raises(PlanError, match=f"{shown}.* is, or contains a mount, on no disk") as caught:
        plan(policy, facts, "native", capabilities(facts))
    assert set(caught.value.missing) == {"io_read"}
    beside = replace(facts, off_disk=("/srv/share/database",))
    assert (
        plan(policy, beside, "native", capabilities(beside)).enforcement[Guarantee.IO_READ].strength is Strength.KERNEL
    )


def test_wall_time_receipt_notes_the_io_rate():
    facts = replace(hosts.ROOT_V1, cgroups=hosts.ROOT_V1.cgroups | {"io": 1})
    for policy, expected in ((Policy(limits={"io_read": "4MiB"}), True), (Policy(), False)):
        note = plan(policy, facts, "native", capabilities(facts)).enforcement[Guarantee.WALL_TIME].note
        assert ("pending read" in note) is expected


def test_disk_setting_differs_by_cgroup_version():
    assert disks.setting(1, "8:0", 5) == ("blkio.throttle.read_bps_device", "8:0 5")
    assert disks.setting(1, "8:0", None) == ("blkio.throttle.read_bps_device", "8:0 0")
    assert disks.setting(2, "8:0", 5) == ("io.max", "8:0 rbps=5")
    assert disks.setting(2, "8:0", None) == ("io.max", "8:0 rbps=max")
