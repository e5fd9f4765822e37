"""The project on a Debian kernel with only cgroup v2, as each kind of caller; one boot serves all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts import expected, image, suite
from tests.hosts.guest.kinds import KINDS
from tests.hosts.machine import Machine, booted

pytestmark = [pytest.mark.needs("qemu"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with booted(image.build()) as booted_machine:
        suite.compile_all(booted_machine)
        yield booted_machine


def test_every_kind_of_caller_has_an_expectation():
    assert {*expected.BELOW, *expected.WHY_NOT} == set(KINDS)


def test_machine_has_only_cgroup_v2(machine):
    answer = machine.run("root", ["sh", "-c", "grep -c cgroup /proc/self/mountinfo; cat /proc/self/cgroup"])
    assert answer.output == "1\n0::/\n"
    assert {"memory", "pids", "cpu"} <= set(machine.controllers.split())


def test_machine_returns_status_output_and_time(machine):
    answer = machine.run("none", ["sh", "-c", "id -u; echo to stderr >&2; exit 7"])
    assert (answer.status, answer.output, answer.timed_out) == (7, "1000\nto stderr\n", False)
    answer = machine.run("none", ["sleep", "100"], seconds=1)
    assert answer.timed_out and answer.status != 0 and answer.seconds < 20


@pytest.mark.parametrize("kind", KINDS)
def test_limits_hold_as_expected(machine, kind):
    assert expected.mistakes(suite.hold(machine, kind)) == []


@pytest.mark.parametrize("kind", suite.MAIN)
def test_project_tests_pass(machine, kind):
    answer = suite.test(machine, kind, suite.SELECTED + (suite.UNIT if kind == "root" else ()))
    assert (answer.status, answer.left) == (0, ()), answer.output
