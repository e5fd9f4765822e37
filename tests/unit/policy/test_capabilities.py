"""A policy can keep one capability; each other one is refused with a reason."""

from dataclasses import replace

import pytest

from stockade import Guarantee, PlanError, Policy, PolicyError
from stockade.backends.native.backend import Native
from stockade.backends.native.capabilities import capabilities
from stockade.cli.assess import assess
from stockade.planning.plan import plan
from stockade.policy.capabilities import refusal
from tests.unit import facts as hosts

# include/uapi/linux/capability.h
KERNEL_NAMES = [
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
]  # fmt: skip
KEPT = {"capabilities": ["CAP_NET_BIND_SERVICE"]}


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_refusal_each_kernel_capability_has_a_reason(name):
    reason = refusal(f"CAP_{name}")
    assert (reason == "") is (name == "NET_BIND_SERVICE")
    assert not reason or reason.startswith(f"CAP_{name} cannot be kept: ")


@pytest.mark.parametrize("names", [["CAP_SYS_ADMIN"], ["CAP_NET_BIND_SERVICE", "net_bind_service"], [""], ["ALL"]])
def test_policy_unknown_capability_names_the_available(names):
    with pytest.raises(PolicyError, match=r"security\.capabilities\.\d = .*available: CAP_NET_BIND_SERVICE"):
        Policy(security={"capabilities": names})


def test_policy_capability_given_twice_kept_once():
    assert Policy(security={"capabilities": KEPT["capabilities"] * 2}).security.capabilities == (
        "CAP_NET_BIND_SERVICE",
    )


def test_receipt_kept_capability_is_named():
    made = plan(Policy(security=KEPT), hosts.USER, "native", capabilities(hosts.USER))
    assert "CAP_NET_BIND_SERVICE: ports below 1024" in made.enforcement[Guarantee.PRIVILEGES].note
    assert "CAP" not in plan(Policy(), hosts.USER, "native", capabilities(hosts.USER)).enforcement["privileges"].note


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"network": "host"}, "host's"), ({"security": {**KEPT, "syscalls": "tight"}}, "syscalls='tight'")],
)
def test_plan_capability_without_own_ports_refused(fields, words):
    with pytest.raises(PlanError, match=words) as caught:
        plan(Policy(**{"security": KEPT} | fields), hosts.ROOT_V1, "native", capabilities(hosts.ROOT_V1))
    assert set(caught.value.missing) == {"security.capabilities"}


def test_assess_refused_capability_shows_other_lines():
    shown = assess(Policy(security=KEPT, network="host"), replace(hosts.ROOT_V1), Native())
    assert set(shown.missing) == {"security.capabilities"}
    assert set(shown.enforcement) == set(Guarantee)
