"""The enforcement of each guarantee if firejail builds the sandbox."""

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
    """Return the enforcement of each guarantee. A pure function of its arguments."""
    by = "firejail " + ".".join(map(str, engine.version))
    return {
        **limits.held(facts),
        Guarantee.WALL_TIME: Enforcement(
            "timer of the warden",
            _SUPERVISOR,
            "killed within 50 ms of it, gone when firejail's mounts are; firejail's own start counts",
        ),
        Guarantee.PROCESSES: _processes(facts),
        Guarantee.FILESYSTEM_READ: Enforcement(
            f"{by}: mount namespace, hidden and picked paths",
            _KERNEL,
            "the names in the host's root folder are visible",
        ),
        Guarantee.FILESYSTEM_WRITE: Enforcement(f"{by}: mount namespace, read-only mounts", _KERNEL),
        Guarantee.NETWORK: limits.network_namespace(facts, f"{by}: "),
        Guarantee.PROCESS_VIEW: Enforcement(
            f"{by}: PID namespace, own /proc",
            _KERNEL,
            "a process outside the sandbox made the guest's session",
        ),
        Guarantee.ENVIRONMENT: Enforcement(
            "execve with a fresh environment", _KERNEL, "a guest can read the names of the host's control groups"
        ),
        Guarantee.IPC: Enforcement(f"{by}: IPC and network namespaces", _KERNEL),
        Guarantee.PRIVILEGES: _privileges(facts, by),
        Guarantee.NO_SURVIVORS: Enforcement(f"{by}: PID namespace, and a reaper around it", _KERNEL),
        Guarantee.DISK: _disk(facts),
    }


def _privileges(facts: HostFacts, by: str) -> Enforcement:
    held = limits.privileges(facts, f"{by}: no capabilities, no new privileges", "inside a user namespace")
    devices = "a guest can use device nodes in shown folders, as far as their modes allow"
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
        return Enforcement("tmpfs size", _KERNEL, "one for the workspace and the temporary files together")
    return Enforcement.absent(
        "nothing bounds the sum of the files in the run's folder, because only root can mount there under firejail; "
        "file_size bounds each file"
    )
