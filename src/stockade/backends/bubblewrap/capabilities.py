"""The enforcement of each guarantee if bwrap builds the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.backends.shared import limits
from stockade.policy.guarantees import Enforcement, Guarantee, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stockade.planning.engines import Engine
    from stockade.planning.facts import HostFacts

_KERNEL = Strength.KERNEL
_SUPERVISOR = Strength.SUPERVISOR


def capabilities(facts: HostFacts, engine: Engine, more: Sequence[str]) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of each guarantee. A pure function of its arguments."""
    by = "bwrap " + ".".join(map(str, engine.version))
    held = {
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
        Guarantee.DISK: Enforcement(
            f"{by}: tmpfs sizes",
            _KERNEL,
            "half for the workspace, a quarter each for /tmp and /dev/shm; empty files, names and attributes do not "
            "count",
        ),
    }
    if more:
        held = {guarantee: _unless_weakened(each, more) for guarantee, each in held.items()}
    return {
        **limits.held(facts),
        Guarantee.WALL_TIME: Enforcement(
            "timer of the warden", _SUPERVISOR, "killed within 50 ms of it; bwrap's own start counts"
        ),
        Guarantee.PROCESSES: _processes(facts),
        **held,
    }


def _unless_weakened(held: Enforcement, more: Sequence[str]) -> Enforcement:
    note = f"unless these arguments weaken it: {' '.join(more)}"
    return Enforcement(held.mechanism, held.strength, f"{held.note}; {note}" if held.note else note)


def _processes(facts: HostFacts) -> Enforcement:
    if "pids" in facts.cgroups:
        return Enforcement(f"cgroup v{facts.cgroups['pids']} pids.max", _KERNEL, "tasks: threads count")
    if facts.uid == 0 or facts.counts_tasks_by_namespace:
        return Enforcement("RLIMIT_NPROC in bwrap's user namespace", _KERNEL, "tasks: threads count")
    return Enforcement("RLIMIT_NPROC", _KERNEL, "counts the caller's other processes as well (Linux before 5.14)")
