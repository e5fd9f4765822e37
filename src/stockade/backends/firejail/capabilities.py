"""What holds each guarantee where firejail makes the walls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.backends.shared import limits
from stockade.policy.guarantees import Enforcement, Guarantee, Strength

if TYPE_CHECKING:
    from stockade.planning.engines import Engine
    from stockade.planning.facts import HostFacts

_KERNEL = Strength.KERNEL
_SUPERVISOR = Strength.SUPERVISOR


def capabilities(facts: HostFacts, engine: Engine) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of each guarantee: a pure function of what was found."""
    by = "firejail " + ".".join(map(str, engine.version))
    return {
        **limits.held(facts),
        Guarantee.WALL_TIME: Enforcement(
            "timer of the warden",
            _SUPERVISOR,
            "killed within 50 ms of it, gone when firejail's mounts are; its own start counts",
        ),
        Guarantee.PROCESSES: _processes(facts),
        Guarantee.FILESYSTEM_READ: Enforcement(
            f"{by}: mount namespace, hidden and picked paths", _KERNEL, "names in the host's root folder can be seen"
        ),
        Guarantee.FILESYSTEM_WRITE: Enforcement(f"{by}: mount namespace, read-only mounts", _KERNEL),
        Guarantee.NETWORK: limits.network_namespace(facts, f"{by}: "),
        Guarantee.PROCESS_VIEW: Enforcement(
            f"{by}: PID namespace, own /proc", _KERNEL, "the guest's session is one made for the run, begun outside"
        ),
        Guarantee.ENVIRONMENT: Enforcement(
            "execve with a fresh environment", _KERNEL, "the names of the host's control groups can be read"
        ),
        Guarantee.IPC: Enforcement(f"{by}: IPC and network namespaces", _KERNEL),
        Guarantee.PRIVILEGES: _privileges(facts, by),
        Guarantee.NO_SURVIVORS: Enforcement(f"{by}: PID namespace, and a keeper around it", _KERNEL),
        Guarantee.DISK: _disk(facts),
    }


def _privileges(facts: HostFacts, by: str) -> Enforcement:
    held = limits.privileges(facts, f"{by}: no capabilities, no new privileges", "behind a user namespace")
    devices = "device nodes in folders that are shown can be used, as their modes say"
    return Enforcement(held.mechanism, held.strength, f"{held.note}; {devices}")


def _processes(facts: HostFacts) -> Enforcement:
    if "pids" in facts.cgroups:
        return Enforcement(f"cgroup v{facts.cgroups['pids']} pids.max", _KERNEL, "tasks: threads count")
    if facts.uid == 0:
        return Enforcement("RLIMIT_NPROC of a uid of its own", _KERNEL, "tasks: threads count")
    if facts.counts_tasks_by_namespace:
        return Enforcement("RLIMIT_NPROC in firejail's user namespace", _KERNEL, "tasks: threads count")
    return Enforcement("RLIMIT_NPROC", _KERNEL, "counts the caller's other processes as well (Linux before 5.14)")


def _disk(facts: HostFacts) -> Enforcement:
    if facts.uid == 0:
        return Enforcement("tmpfs size", _KERNEL, "one for the workspace and the folder of temporary files together")
    return Enforcement.absent(
        "nothing bounds the sum of what is written to the run's folder, since firejail lets only root mount there; "
        "file_size bounds each file"
    )
