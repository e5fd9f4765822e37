"""The project on a Debian kernel with cgroup v2 alone, as each kind of caller; booted once for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts import image, suite
from tests.hosts.guest.kinds import KINDS
from tests.hosts.machine import Machine, booted
from tests.hosts.suite import Held

pytestmark = [pytest.mark.needs("qemu"), pytest.mark.timeout(900)]

_USER = "/sys/fs/cgroup/user.slice/user-1000.slice"
BELOW = {
    "root": "/sys/fs/cgroup",
    "service": "/sys/fs/cgroup/system.slice/program.service",
    "delegated": f"{_USER}/user@1000.service",
    "delegated-limited": f"{_USER}/user@1000.service/program",
    "given": "/sys/fs/cgroup/given",
    "scope": f"{_USER}/run.scope",
    "crowded-scope": f"{_USER}/run.scope",
    "container": "/sys/fs/cgroup",
}
"""Where the groups of a run lie: never above what was handed to the caller, nor outside a limit set on him."""
WHY_NOT = {
    "none": "Permission denied",
    "container-read-only": "Read-only file system",
    "crowded-service": "other processes than the caller's own (sleep ",
    "crowded-below": "other processes than the caller's own (sleep ",
}


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with booted(image.build()) as booted_machine:
        suite.compile_all(booted_machine)
        yield booted_machine


@pytest.fixture(scope="module", params=BELOW)
def grouped(request: pytest.FixtureRequest, machine: Machine) -> Held:
    return suite.hold(machine, request.param)


@pytest.fixture(scope="module", params=WHY_NOT)
def ungrouped(request: pytest.FixtureRequest, machine: Machine) -> Held:
    return suite.hold(machine, request.param)


def test_every_kind_is_expected_somewhere():
    assert {*BELOW, *WHY_NOT} == set(KINDS)


def test_this_is_another_kernel_with_cgroup_v2_alone(machine):
    answer = machine.run("root", ["sh", "-c", "grep -c cgroup /proc/self/mountinfo; cat /proc/self/cgroup"])
    assert answer.output == "1\n0::/\n"
    assert {"memory", "pids", "cpu"} <= set(machine.controllers.split())


def test_status_output_and_time_of_a_command_come_back(machine):
    answer = machine.run("none", ["sh", "-c", "id -u; echo to stderr >&2; exit 7"])
    assert (answer.status, answer.output, answer.timed_out) == (7, "1000\nto stderr\n", False)
    answer = machine.run("none", ["sleep", "100"], seconds=1)
    assert answer.timed_out and answer.status != 0 and answer.seconds < 20


class TestGroups:
    def test_the_kernel_holds_memory_processes_and_cores(self, grouped):
        assert grouped.facts["cgroups"] == dict.fromkeys(("memory", "pids", "cpu", "swap", "cpuacct"), 2)
        assert all(grouped.of(limit).endswith("[kernel]") for limit in ("memory", "swap", "processes", "cpu_rate"))

    def test_they_lie_below_what_was_handed_to_the_caller(self, grouped):
        assert grouped.facts["paths"] == [BELOW[grouped.kind]]

    def test_a_tree_of_processes_is_held_together(self, grouped):
        ran = grouped.ran("memory_together")
        assert (ran["outcome"], ran["limit"], ran["peak_memory"]) == ("limit_exceeded", "memory", 128 << 20)

    def test_processes_are_exact(self, grouped):
        assert grouped.ran("processes")["stdout"].split() == ["11", "7"]

    def test_nothing_is_left(self, grouped):
        assert grouped.left == ()


class TestNoGroups:
    def test_the_reason_is_said(self, ungrouped):
        assert ungrouped.facts["cgroups"] == {}
        assert all(WHY_NOT[ungrouped.kind] in ungrouped.facts["lost"][name] for name in ("memory", "pids", "cpu"))

    def test_what_holds_instead_is_said_to_be_weaker(self, ungrouped):
        assert ungrouped.of("memory").endswith("[supervisor]")
        assert ungrouped.of("processes") == "RLIMIT_NPROC in a user namespace [kernel]"

    def test_it_holds_all_the_same(self, ungrouped):
        assert ungrouped.ran("memory_together")["limit"] == "memory"
        assert ungrouped.ran("processes")["stdout"].split() == ["11", "7"]

    def test_nothing_is_left(self, ungrouped):
        assert ungrouped.left == ()


@pytest.fixture(scope="module", params=["root", "delegated"])
def main_kind(request: pytest.FixtureRequest, machine: Machine) -> Held:
    return suite.hold(machine, request.param)


class TestMainKinds:
    """Against every limit, which takes longer."""

    def test_memory(self, main_kind):
        for run in ("memory", "memory_files"):
            ran = main_kind.ran(run)
            assert (ran["outcome"], ran["limit"]) == ("limit_exceeded", "memory"), run
            assert ran["peak_memory"] <= 64 << 20

    def test_cores(self, main_kind):
        ran = main_kind.ran("cpu_rate")
        assert 0.15 < ran["cpu_seconds"] / ran["wall_seconds"] < 0.35

    def test_the_warden_outlives_it_all(self, main_kind):
        assert main_kind.ran("afterwards")["stdout"] == "well\n"


@pytest.mark.parametrize("kind", suite.MAIN)
def test_the_projects_own_tests(machine, kind):
    answer = suite.test(machine, kind, suite.SELECTED + (suite.UNIT if kind == "root" else ()))
    assert (answer.status, answer.left) == (0, ()), answer.output
