"""What holds each guarantee under the native backend, given what the host offers."""

from __future__ import annotations

from stockade._facts import HostFacts
from stockade._guarantees import Enforcement, Guarantee, Strength
from stockade.linux import landlock

_KERNEL = Strength.KERNEL
_SUPERVISOR = Strength.SUPERVISOR
_SCOPES = 6  # the Landlock ABI that keeps abstract sockets and signals inside
_AFTER_OOM = "the warden ends the tree after an oom_kill"


def capabilities(facts: HostFacts) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of each guarantee: a pure function of the facts."""
    return {
        Guarantee.CPU_TIME: _cpu_time(facts),
        Guarantee.CPU_RATE: _cpu_rate(facts),
        Guarantee.WALL_TIME: _wall_time(facts),
        Guarantee.MEMORY: _memory(facts),
        Guarantee.SWAP: _swap(facts),
        Guarantee.PROCESSES: _processes(facts),
        Guarantee.OPEN_FILES: Enforcement("RLIMIT_NOFILE", _KERNEL, "of each process"),
        Guarantee.FILE_SIZE: Enforcement("RLIMIT_FSIZE", _KERNEL),
        Guarantee.DISK: Enforcement("tmpfs size and inodes", _KERNEL, "in the places that the sandbox makes"),
        Guarantee.OUTPUT: Enforcement("counted by the warden", _SUPERVISOR, "exact: what is past it is not kept"),
        Guarantee.STACK: Enforcement("RLIMIT_STACK", _KERNEL, "of the main thread"),
        Guarantee.FILESYSTEM_READ: Enforcement("mount namespace, new root" + _landlock(facts), _KERNEL),
        Guarantee.FILESYSTEM_WRITE: Enforcement(
            "mount namespace, read-only mounts" + _landlock(facts), _KERNEL, _left_to_namespaces(facts)
        ),
        Guarantee.NETWORK: _network(facts),
        Guarantee.PROCESS_VIEW: _process_view(facts),
        Guarantee.IPC: _ipc(facts),
        Guarantee.PRIVILEGES: _privileges(facts),
        Guarantee.SYSCALLS: _syscalls(facts),
        Guarantee.ENVIRONMENT: Enforcement("execve with a fresh environment", _KERNEL),
        Guarantee.NO_SURVIVORS: Enforcement("PID namespace with a trusted init", _KERNEL),
    }


FILTERED_MACHINES = ("x86_64", "aarch64")


def filters_syscalls(facts: HostFacts) -> bool:
    """Return whether a system-call filter can be loaded here."""
    return facts.seccomp and facts.machine in FILTERED_MACHINES


def _syscalls(facts: HostFacts) -> Enforcement:
    if filters_syscalls(facts):
        return Enforcement("seccomp filter", _KERNEL, "an allow-list; what it does not know is refused")
    if facts.machine not in FILTERED_MACHINES:
        return Enforcement.absent(f"there is no filter for {facts.machine} yet")
    return Enforcement.absent(
        "no filter can be loaded here: the kernel lacks CONFIG_SECCOMP_FILTER, or a filter around us refuses it"
    )


def _landlock(facts: HostFacts) -> str:
    return f", Landlock ABI {facts.landlock}" if facts.landlock else ""


def _left_to_namespaces(facts: HostFacts) -> str:
    if not facts.landlock:
        return "no Landlock behind the mounts here"
    gaps = landlock.closed_later(facts.landlock)
    return f"this kernel's Landlock leaves to the namespaces: {'; '.join(gaps)}" if gaps else ""


def _ipc(facts: HostFacts) -> Enforcement:
    note = ""
    if facts.landlock < _SCOPES:
        note = "where the policy opens the host's network, its abstract sockets are in reach (Linux before 6.12)"
    return Enforcement("IPC and network namespaces", _KERNEL, note)


def _wall_time(facts: HostFacts) -> Enforcement:
    note = "killed within 50 ms"
    if not filters_syscalls(facts):
        note += ", but a guest can slow down its own init, whose end is its own"
    return Enforcement("timer of the warden", _SUPERVISOR, note)


def _cpu_time(facts: HostFacts) -> Enforcement:
    if facts.counts_cpu:
        return Enforcement("cgroup CPU usage, watched", _SUPERVISOR, "killed within 100 ms of CPU past it")
    return Enforcement(
        "RLIMIT_CPU and sampling of /proc",
        _SUPERVISOR,
        "time of children that nobody waited for can hide between samples: then bounded by wall_time x CPUs",
    )


def _cpu_rate(facts: HostFacts) -> Enforcement:
    if "cpu" in facts.cgroups:
        return Enforcement(f"cgroup v{facts.cgroups['cpu']} CPU bandwidth", _KERNEL)
    return Enforcement.absent(_no_cgroup(facts, "cpu"))


def _memory(facts: HostFacts) -> Enforcement:
    version = facts.cgroups.get("memory")
    if version == 2:
        return Enforcement("cgroup v2 memory.max", _KERNEL, _AFTER_OOM)
    if version == 1:
        return Enforcement("cgroup v1 memory.limit_in_bytes", _KERNEL, _AFTER_OOM)
    note = (
        "worst case: processes x memory, and beside it the disk, which lies in memory, and buffers of pipes and sockets"
    )
    if not filters_syscalls(facts):
        note += (
            ", and without bound what no process maps: memfd files, System V segments, shared memory that was dropped"
        )
    return Enforcement("RLIMIT_DATA and a sampled total", _SUPERVISOR, f"{note}; {_no_cgroup(facts, 'memory')}")


def _swap(facts: HostFacts) -> Enforcement:
    if "swap" in facts.cgroups:
        name = "memory.swap.max" if facts.cgroups["swap"] == 2 else "memory.memsw.limit_in_bytes"
        return Enforcement(f"cgroup v{facts.cgroups['swap']} {name}", _KERNEL)
    if not facts.swap:
        return Enforcement("the host has no swap", _KERNEL, "as found when this program first asked")
    return Enforcement.absent("the host has swap and no control group counts it; " + _no_cgroup(facts, "memory"))


def _processes(facts: HostFacts) -> Enforcement:
    if "pids" in facts.cgroups:
        return Enforcement(f"cgroup v{facts.cgroups['pids']} pids.max, RLIMIT_NPROC", _KERNEL, "tasks: threads count")
    if facts.privileged or facts.counts_tasks_by_namespace:
        return Enforcement("RLIMIT_NPROC in a user namespace", _KERNEL, "tasks: threads count")
    return Enforcement("RLIMIT_NPROC", _KERNEL, "counts the caller's other processes as well (Linux before 5.14)")


def _privileges(facts: HostFacts) -> Enforcement:
    note = "a host uid leased for the run" if facts.privileged else "the caller's own uid behind a user namespace"
    if facts.groups and not facts.privileged:
        note += f"; {facts.groups} supplementary groups of the caller stay, which only root could shed"
    return Enforcement("no capabilities, no new privileges, user namespace", _KERNEL, note)


def _process_view(facts: HostFacts) -> Enforcement:
    # prlimit(2) asks for the same ids, and an ordinary user has only one of each to give.
    held = facts.privileged or filters_syscalls(facts)
    note = "" if held else "a guest can lower its own init's limits by prlimit, which ends the run"
    return Enforcement("PID namespace, own /proc", _KERNEL, note)


def _network(facts: HostFacts) -> Enforcement:
    note = "its own loopback is all there is"
    if not filters_syscalls(facts):
        note += "; VM sockets, where the host has them, belong to no network namespace and stay in reach"
    return Enforcement("network namespace", _KERNEL, note)


def _no_cgroup(facts: HostFacts, controller: str) -> str:
    if controller in facts.cgroup_lost:
        return f"the {controller} controller is there and not ours to use ({facts.cgroup_lost[controller]})"
    return f"no cgroup {controller} controller was found"
