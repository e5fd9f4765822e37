"""The reason and the remedy on hosts without namespaces."""

from dataclasses import replace

import pytest

from stockade.backends.native.backend import Native
from tests.unit import facts

CLONE = "clone: Operation not permitted"
PROC = "step proc []: mount proc on /proc: Operation not permitted"
COVERED = ("/proc/acpi", "/proc/bus", "/proc/fs", "/proc/sys")
FILTERED = replace(facts.NOTHING, filtered=True, namespace_reasons={"root": CLONE, "user": CLONE, "pid": CLONE})
HOST_ROOT = "step identity: the guest would be the host's root, whom RLIMIT_NPROC does not bind"


def refusal(host):
    available = Native().availability(host)
    assert not available.usable
    return available.reason, available.remedy


def test_reason_in_filtered_container_is_short():
    reason, remedy = refusal(FILTERED)
    assert reason == (
        "namespaces cannot be made here (clone: Operation not permitted), as in a container: "
        "a system-call filter is around this program"
    )
    assert "--security-opt seccomp=unconfined --security-opt systempaths=unconfined --user 65534" in remedy


def test_reason_with_covered_proc_names_it():
    reason, remedy = refusal(replace(facts.NOTHING, covered=COVERED, namespace_reasons={"user": PROC}))
    assert reason == (
        "namespaces can be made here, but no fresh /proc can be mounted in them (Operation not permitted): parts of this "
        "/proc are covered (/proc/acpi, /proc/bus, /proc/fs and 1 more), and a guest is never shown the outer one"
    )
    assert "systempaths=unconfined" in remedy


def test_reason_of_earlier_step_omits_proc():
    reason, _ = refusal(replace(FILTERED, covered=COVERED))
    assert "/proc" not in reason


@pytest.mark.parametrize(
    ("name", "value", "way"),
    [
        ("user.max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
        ("kernel.unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "kernel.apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_reason_names_setting_and_remedy(name, value, way):
    reason, remedy = refusal(replace(facts.NOTHING, settings={name: value}))
    assert reason == f"user namespaces are closed here by {name} (clone: Operation not permitted)"
    assert remedy == way


def test_reason_for_powerless_root_names_user():
    host = replace(facts.NOTHING, uid=0, namespace_reasons={"root": CLONE, "user": HOST_ROOT})
    reason, remedy = refusal(host)
    assert reason == (
        "the guest would be the host's root, whom RLIMIT_NPROC does not bind; "
        "this root lacks capabilities (clone: Operation not permitted)"
    )
    assert "as an ordinary user" in remedy and "CAP_SYS_ADMIN" in remedy


def test_remedy_without_facts_names_every_way():
    reason, remedy = refusal(facts.NOTHING)
    assert reason == "namespaces cannot be made here (clone: Operation not permitted)"
    assert all(way in remedy for way in ("user.max_user_namespaces", "run as root", "docker run", "chroot"))
