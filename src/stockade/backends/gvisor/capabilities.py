"""The enforcement of each guarantee if gVisor's kernel, a program in user space, answers the guest's system calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stockade.backends.shared import limits
from stockade.policy.guarantees import Enforcement, Guarantee, Strength

if TYPE_CHECKING:
    from stockade.planning.facts import HostFacts

OWN_TASKS = 256
"""Threads that a control group counts beside the guest's: of runsc and of gVisor's kernel, which may not start with
fewer."""
_KERNEL = Strength.KERNEL
_SUPERVISOR = Strength.SUPERVISOR
_SIZED = {
    Guarantee.OPEN_FILES: ("RLIMIT_NOFILE", "of each process; open files in messages of sockets count for none"),
    Guarantee.FILE_SIZE: ("RLIMIT_FSIZE", ""),
    Guarantee.ADDRESS_SPACE: ("RLIMIT_AS", "of each process, used or not"),
    Guarantee.STACK: ("RLIMIT_STACK", "of the main thread"),
}


def capabilities(facts: HostFacts) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of each guarantee. A pure function of its arguments."""
    held = limits.held(facts)
    return {
        **held,
        **{
            limit: Enforcement(f"{name}, kept by gVisor's kernel", _KERNEL, note)
            for limit, (name, note) in _SIZED.items()
        },
        Guarantee.IO_READ: Enforcement.absent(
            "gVisor's helper for files reads through the host's page cache; use native"
        ),
        Guarantee.DATA: Enforcement.absent("gVisor's kernel counts no private mappings there; use memory"),
        **_by_groups(facts, held),
        Guarantee.WALL_TIME: Enforcement(
            "timer of the warden", _SUPERVISOR, "killed within 50 ms of it; gVisor's start and end count"
        ),
        Guarantee.DISK: Enforcement(
            "gVisor: sizes of tmpfs",
            _KERNEL,
            "a part for each folder that the sandbox makes; names and attributes count as memory",
        ),
        Guarantee.SYSCALLS: Enforcement(
            "gVisor: a kernel in user space answers the guest's calls, and a seccomp filter of its own is around it",
            _KERNEL,
            "what gVisor does not know fails with ENOSYS; the policy's filter does not apply",
        ),
        Guarantee.FILESYSTEM_READ: Enforcement("gVisor: own root; a process of runsc opens the host's files", _KERNEL),
        Guarantee.FILESYSTEM_WRITE: Enforcement(
            "gVisor: read-only mounts, all else in gVisor's memory", _KERNEL, "the devices in /dev are gVisor's own"
        ),
        Guarantee.NETWORK: Enforcement("gVisor: no network (--network=none), and a network namespace", _KERNEL),
        Guarantee.PROCESS_VIEW: Enforcement(
            "gVisor: own processes and /proc; a PID namespace around it",
            _KERNEL,
            "a guest can kill, renice and, by prlimit, bound gVisor's own first process, which can end its run",
        ),
        Guarantee.IPC: Enforcement("gVisor: own IPC; no socket of the host is opened", _KERNEL),
        Guarantee.PRIVILEGES: _with_note(
            limits.privileges(
                facts,
                "gVisor: no capabilities, no new privileges; a user namespace around it",
                "inside a user namespace",
            ),
            "priorities, device nodes and capabilities that a guest takes are gVisor's own, and open nothing",
        ),
        Guarantee.NO_SURVIVORS: Enforcement("gVisor: PID namespace, and a reaper around it", _KERNEL),
    }


def _by_groups(facts: HostFacts, held: dict[Guarantee, Enforcement]) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of what only a control group around gVisor can count."""
    memory, pids = held[Guarantee.MEMORY], facts.cgroups.get("pids")
    return {
        Guarantee.CPU_RATE: _with_note(held[Guarantee.CPU_RATE], "a guest sees more on its own clock of CPU time"),
        Guarantee.MEMORY: _uncounted(facts, "memory")
        if "memory" not in facts.cgroups
        else _with_note(memory, "gVisor's own memory counts"),
        Guarantee.CPU_TIME: _with_note(held[Guarantee.CPU_TIME], "a guest has no RLIMIT_CPU")
        if facts.counts_cpu
        else _uncounted(facts, "cpuacct"),
        Guarantee.PROCESSES: _uncounted(facts, "pids")
        if pids is None
        else Enforcement(
            f"cgroup v{pids} pids.max around gVisor",
            _KERNEL,
            f"the figure and {OWN_TASKS} more threads of the host; gVisor takes some seven for a process of the guest",
        ),
    }


def _with_note(held: Enforcement, note: str) -> Enforcement:
    """Return the enforcement with a further note, unless there is nothing that the note could be about."""
    if held.strength is Strength.ABSENT:
        return held
    return replace(held, note="; ".join(filter(None, (note, held.note))))


def _uncounted(facts: HostFacts, controller: str) -> Enforcement:
    return Enforcement.absent(f"only a control group around gVisor can hold it; {limits.no_cgroup(facts, controller)}")
