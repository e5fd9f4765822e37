"""Whatever system call of the set-up fails, the sandbox fails: never the guest, and never its confinement."""

from __future__ import annotations

import pytest
from tests.support import host
from tests.system import setup_table
from tests.system.setup_table import Found

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]
_LONGEST = 700
_STEPS = {
    "bind", "cgroup_namespace", "chdir", "filter", "hostname", "identity", "job_folder", "landlock", "leave_host", "link",
    "loopback", "proc", "root", "scratch", "seal_root",
}  # fmt: skip
_OF_PROJECTS = {"copy", "overlay", "hide"}
# The first call asks only for the version, so its error means a kernel without Landlock.
_OTHER_NAMES = {"landlock_create_ruleset": ("ENOSYS", "ENOMSG")}


@pytest.fixture(scope="module")
def table() -> list[Found]:
    with host.as_before():
        return setup_table.try_all()


@pytest.mark.timeout(300)  # waits for the whole table
def test_failing_call_fails_the_sandbox_alone(table: list[Found]) -> None:
    wrong = [each for each in table if each.outcome not in ("sandbox_failed", "completed", "SetupError", "PlanError")]
    assert len(table) > 60 and not wrong, wrong


def test_run_that_survives_a_failing_call_is_as_confined(table: list[Found]) -> None:
    assert not [each for each in table if each.outcome == "completed" and not each.as_confined]


def test_failing_call_is_named_with_errno_and_remedy(table: list[Found]) -> None:
    for each in table:
        if each.outcome == "completed":
            continue
        names = (each.errno, *_OTHER_NAMES.get(each.call, ()))
        assert any(f"({name}); " in each.message for name in names), each
        assert "\n" not in each.message and len(each.message) <= _LONGEST, each


def test_every_step_fails_at_least_once(table: list[Found]) -> None:
    seen = {each.step for each in table}
    assert seen >= _STEPS | _OF_PROJECTS, (_STEPS | _OF_PROJECTS) - seen
