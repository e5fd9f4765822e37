"""The enforcement of each guarantee if an OCI runtime makes the container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.backends.shared import limits
from stockade.policy.guarantees import Enforcement, Guarantee, Strength

if TYPE_CHECKING:
    from stockade.planning.engines import Engine
    from stockade.planning.facts import HostFacts

_KERNEL = Strength.KERNEL
_SUPERVISOR = Strength.SUPERVISOR


def capabilities(facts: HostFacts, name: str, engine: Engine) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of each guarantee by the runtime ``name``. A pure function of its arguments."""
    by = f"{name} " + ".".join(map(str, engine.version))
    return {
        **limits.held(facts),
        Guarantee.WALL_TIME: Enforcement(
            "timer of the warden", _SUPERVISOR, f"killed within 50 ms of it; {name}'s own start counts"
        ),
        Guarantee.PROCESSES: _processes(facts, name),
        Guarantee.FILESYSTEM_READ: Enforcement(f"{by}: mount namespace, new root", _KERNEL),
        Guarantee.FILESYSTEM_WRITE: Enforcement(
            f"{by}: mount namespace, read-only mounts",
            _KERNEL,
            "a guest can set the times of the devices in /dev to the current time",
        ),
        Guarantee.NETWORK: limits.network_namespace(facts, f"{by}: "),
        Guarantee.PROCESS_VIEW: Enforcement(f"{by}: PID namespace, own /proc", _KERNEL),
        Guarantee.IPC: Enforcement(f"{by}: IPC and network namespaces", _KERNEL),
        Guarantee.PRIVILEGES: limits.privileges(
            facts, f"{by}: no capabilities, no new privileges, user namespace", "inside a user namespace"
        ),
        Guarantee.NO_SURVIVORS: Enforcement(f"{by}: PID namespace, and a reaper around it", _KERNEL),
        Guarantee.DISK: Enforcement("tmpfs size and inodes", _KERNEL, "in the folders that the sandbox makes"),
    }


def _processes(facts: HostFacts, name: str) -> Enforcement:
    if "pids" in facts.cgroups:
        return Enforcement(f"cgroup v{facts.cgroups['pids']} pids.max", _KERNEL, "tasks: threads count")
    if facts.uid == 0 or facts.counts_tasks_by_namespace:
        return Enforcement(f"RLIMIT_NPROC in {name}'s user namespace", _KERNEL, "tasks: threads count")
    return Enforcement("RLIMIT_NPROC", _KERNEL, "counts the caller's other processes as well (Linux before 5.14)")
