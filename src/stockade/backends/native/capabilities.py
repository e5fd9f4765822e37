"""The enforcement of each guarantee under the native backend."""

from __future__ import annotations

from stockade.backends.base import Traits
from stockade.backends.shared import limits
from stockade.backends.shared.limits import filters_syscalls
from stockade.linux import landlock
from stockade.planning.facts import HostFacts
from stockade.policy.guarantees import Enforcement, Guarantee, Strength

TRAITS = Traits(
    keeps_workspaces=True,
    collects_names=True,
    keeps_capabilities=True,
    keeps_sandboxes=True,
    shows_programs=True,
    maps_one_id=True,
    bounds_network=True,
)
_KERNEL = Strength.KERNEL
_SUPERVISOR = Strength.SUPERVISOR


def capabilities(facts: HostFacts) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of each guarantee. A pure function of the host facts."""
    return {
        **limits.held(facts),
        Guarantee.WALL_TIME: _wall_time(facts),
        Guarantee.PROCESSES: _processes(facts),
        Guarantee.DISK: Enforcement("tmpfs size and inodes", _KERNEL, "in the folders that the sandbox makes"),
        Guarantee.FILESYSTEM_READ: Enforcement("mount namespace, new root" + _landlock(facts), _KERNEL),
        Guarantee.FILESYSTEM_WRITE: Enforcement(
            "mount namespace, read-only mounts" + _landlock(facts), _KERNEL, _left_to_namespaces(facts)
        ),
        Guarantee.NETWORK: limits.network_namespace(facts),
        Guarantee.PROCESS_VIEW: _process_view(facts),
        Guarantee.IPC: _ipc(facts),
        Guarantee.PRIVILEGES: limits.privileges(
            facts, "no capabilities, no new privileges, user namespace", "inside a user namespace"
        ),
        Guarantee.NO_SURVIVORS: Enforcement("PID namespace with a trusted init", _KERNEL),
    }


def _landlock(facts: HostFacts) -> str:
    return f", Landlock ABI {facts.landlock}" if facts.landlock else ""


def _left_to_namespaces(facts: HostFacts) -> str:
    if not facts.landlock:
        return "the mounts have no Landlock behind them here"
    gaps = landlock.closed_later(facts.landlock)
    return f"this kernel's Landlock leaves to the namespaces: {'; '.join(gaps)}" if gaps else ""


def _ipc(facts: HostFacts) -> Enforcement:
    note = ""
    if facts.landlock < landlock.SCOPED_SINCE:
        note = "if the policy opens the host's network, a guest can reach its abstract sockets (Linux before 6.12)"
    return Enforcement("IPC and network namespaces", _KERNEL, note)


def _wall_time(facts: HostFacts) -> Enforcement:
    note = "killed within 50 ms"
    if not filters_syscalls(facts):
        note += ", but a guest can slow down its own init, which only delays its own end"
    return Enforcement("timer of the warden", _SUPERVISOR, note)


def _processes(facts: HostFacts) -> Enforcement:
    if "pids" in facts.cgroups:
        return Enforcement(f"cgroup v{facts.cgroups['pids']} pids.max, RLIMIT_NPROC", _KERNEL, "tasks: threads count")
    if facts.privileged or facts.counts_tasks_by_namespace:
        return Enforcement("RLIMIT_NPROC in a user namespace", _KERNEL, "tasks: threads count")
    return Enforcement("RLIMIT_NPROC", _KERNEL, "counts the caller's other processes as well (Linux before 5.14)")


def _process_view(facts: HostFacts) -> Enforcement:
    # prlimit(2) requires equal ids. An ordinary user has only one uid and gid, so init and guest share them.
    held = facts.privileged or filters_syscalls(facts)
    note = "" if held else "a guest can lower the limits of its own init by prlimit, which ends the run"
    return Enforcement("PID namespace, own /proc", _KERNEL, note)
