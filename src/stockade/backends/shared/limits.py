"""The limits that all backends share: their enforcement on this host, and their figures in a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.core.launch import Groups, Watch
from stockade.linux import limits as kernel_limits
from stockade.planning import syscall_filter
from stockade.policy.guarantees import Enforcement, Guarantee, Strength

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stockade.core.launch import Step
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy

_KERNEL = Strength.KERNEL
_SUPERVISOR = Strength.SUPERVISOR
_SLOW_READS = (
    "from each disk; reads from the page cache are free; other processes that need a page that is being read wait too"
)
_AFTER_OOM = (
    "the warden ends the tree after an oom_kill; every 100 ms it also counts netlink answers, connections that nobody "
    "accepts and file locks, which the group does not count, and ends the tree if they fill the rest"
)
_UNCOUNTED = (
    "buffers of TCP and UDP have a separate bound of the same size, and the warden ends the tree when both "
    "together reach the limit: worst case twice the limit for 100 ms"
)
_TICKS = 1.25
"""How far RLIMIT_CPU lies beyond the limit on CPU time."""
LOOSE = 64
"""The margin of RLIMIT_NPROC where the run's group counts exactly, because other processes can have the same uid."""
_SIGNALS = 1024
"""RLIMIT_SIGPENDING: the most signals and timers that can be pending for all processes of an account. The kernel allows
an account some thousands; a guest can use at most this many of them."""
PRLIMIT = "/usr/bin/prlimit"
_INSIDE = 1  # the task of an engine's own that is in the sandbox
_LEAST_FILES = 64  # descriptors that an engine opens for itself, with a margin
FILTERED_MACHINES = ("x86_64", "aarch64")


def held(facts: HostFacts) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of the guarantees that rest only on the kernel, the warden and a fresh exec."""
    return {
        Guarantee.CPU_TIME: _cpu_time(facts),
        Guarantee.CPU_RATE: _cpu_rate(facts),
        Guarantee.MEMORY: _memory(facts),
        Guarantee.SWAP: _swap(facts),
        Guarantee.OPEN_FILES: Enforcement("RLIMIT_NOFILE", _KERNEL, "of each process"),
        Guarantee.FILE_SIZE: Enforcement("RLIMIT_FSIZE", _KERNEL),
        Guarantee.IO_READ: _io_read(facts),
        Guarantee.OUTPUT: Enforcement("counted by the warden", _SUPERVISOR, "exact: bytes past the limit are dropped"),
        Guarantee.OPERATIONS: Enforcement(
            "counted by the language's agent", Strength.COOPERATIVE, "Python and Ruby source only"
        ),
        Guarantee.STACK: Enforcement("RLIMIT_STACK", _KERNEL, "of the main thread"),
        Guarantee.ADDRESS_SPACE: Enforcement("RLIMIT_AS", _KERNEL, "of each process, used or not"),
        Guarantee.DATA: Enforcement("RLIMIT_DATA", _KERNEL, "of each process: private writable memory"),
        Guarantee.SYSCALLS: _syscalls(facts),
        Guarantee.ENVIRONMENT: Enforcement("execve with a fresh environment", _KERNEL),
    }


def rlimits(policy: Policy, facts: HostFacts, own_tasks: int = 1) -> dict[str, tuple[int, int]]:
    """Return the resource limits of every process. Where a control group counts better, they are a second bound.

    ``own_tasks`` is the number of tasks of the interpreter itself, including the first task of the job.
    """
    figure = policy.limits.figure
    limits = {"memlock": (1 << 16, 1 << 16), "msgqueue": (0, 0), "rtprio": (0, 0), "sigpending": (_SIGNALS, _SIGNALS)}
    for name, guarantee in (
        ("nofile", Guarantee.OPEN_FILES),
        ("fsize", Guarantee.FILE_SIZE),
        ("stack", Guarantee.STACK),
        ("nproc", Guarantee.PROCESSES),
        ("as", Guarantee.ADDRESS_SPACE),
        ("data", Guarantee.DATA),
    ):
        value = figure(guarantee)
        if value is not None:
            value += own_tasks - 1 if guarantee is Guarantee.PROCESSES else 0
            limits[name] = (int(value), int(value))
    cpu = figure(Guarantee.CPU_TIME)
    if cpu is not None:
        # RLIMIT_CPU must not end the run before the meter does. It also counts the set-up, and it counts whole ticks of
        # the clock, which on a busy machine is some per cent more than the time that the process ran.
        seconds = int(cpu * _TICKS) + 1
        limits["cpu"] = (seconds, seconds + 1)
    memory = figure(Guarantee.MEMORY)
    if memory is not None and "memory" not in facts.cgroups:
        least = min(int(memory), limits.get("data", (int(memory),))[0])
        limits["data"] = (least, least)
    return limits


def engine_rlimits(
    wanted: Mapping[str, tuple[int, int]], facts: HostFacts, largest: int
) -> tuple[dict[str, tuple[int, int]], tuple[str, ...]]:
    """Return the resource limits to set before an engine starts, and the command that sets the others in its sandbox.

    The others would hinder the engine's own work. prlimit sets them inside, at the price of one more program.
    ``largest`` is the size of the largest file that the engine writes.
    """
    before, inner = dict(wanted), {}
    if "nproc" in before:
        count = before.pop("nproc")[0]
        if "pids" not in facts.cgroups:  # outside the sandbox, other processes of the uid would count
            inner["nproc"] = (count + _INSIDE, count + _INSIDE)
        elif facts.uid == 0:  # the control group counts exactly, so prlimit is not needed
            before["nproc"] = (count + LOOSE, count + LOOSE)
    least = {"fsize": largest, "nofile": _LEAST_FILES}
    inner |= {name: before.pop(name) for name in tuple(before) if before[name][0] < least.get(name, 0)}
    if not inner:
        return before, ()
    lowered = kernel_limits.prepare(inner)
    arguments = [f"--{name}={soft}:{hard}" for name, (_, soft, hard) in zip(inner, lowered, strict=True)]
    return before, (PRLIMIT, *arguments, "--")


def groups(policy: Policy, engine_tasks: int = 0) -> Groups:
    """Return the figures for the control groups. ``engine_tasks`` is the number of tasks that are not the guest's."""
    figure = policy.limits.figure
    limits = (Guarantee.MEMORY, Guarantee.SWAP, Guarantee.PROCESSES, Guarantee.IO_READ)
    figures = {limit.value: None if (value := figure(limit)) is None else int(value) for limit in limits}
    return Groups(**figures, cores=figure(Guarantee.CPU_RATE)).with_tasks(engine_tasks)


def watch(
    policy: Policy, facts: HostFacts, engine_tasks: int = 0, own_tasks: int = 1, *, own_network: bool = False
) -> Watch:
    """Return the figures that the warden watches. ``own_network``: the backend can give a network namespace."""
    figure = policy.limits.figure
    output, memory = figure(Guarantee.OUTPUT), figure(Guarantee.MEMORY)
    sampled = memory is not None and "memory" not in facts.cgroups
    return Watch(
        wall_seconds=figure(Guarantee.WALL_TIME),
        cpu_seconds=figure(Guarantee.CPU_TIME),
        output_bytes=None if output is None else int(output),
        kill_on_output=policy.on_output == "kill",
        engine_tasks=engine_tasks,
        own_tasks=own_tasks,
        sampled_memory=int(memory) if sampled and memory is not None else None,
        soft_memory=policy.limits.soft,
        own_network=own_network and policy.network != "host",
    )


def privileges(facts: HostFacts, mechanism: str, where: str = "") -> Enforcement:
    """Return the enforcement of the guest's privileges. ``where`` describes the protection around a user's own uid."""
    note = "a host uid leased for the run" if facts.uid == 0 else f"the caller's own uid {where}".rstrip()
    if facts.groups and facts.uid != 0:
        note += f"; {facts.groups} supplementary groups of the caller stay, because only root can drop them"
    notes = (note, _shared_counters(facts), _core_handler(facts))
    return Enforcement(mechanism, _KERNEL, "; ".join(filter(None, notes)))


def _shared_counters(facts: HostFacts) -> str:
    """Return a note on the kernel counters that the guest shares with its account without a bound of its own."""
    if facts.uid == 0:
        return ""
    return (
        "the kernel counts pipe pages, epoll watches and descriptors in flight for the caller's whole account, and a "
        "guest can use them up; it can use only a share of the account's signals, timers and inotify instances"
    )


def _core_handler(facts: HostFacts) -> str:
    """Return a note on how a crash of the guest can still reach the host's core handler."""
    if facts.core_handler == "socket":
        return "a crash connects to the host's core socket (kernel.core_pattern), which no limit prevents"
    if facts.core_handler == "pipe" and facts.core_limit < 1:
        return (
            "a crash starts the host's core handler (kernel.core_pattern) as root, because the hard limit on core "
            "files is 0 here; start stockade with a hard limit of 1 byte or more"
        )
    if facts.core_handler == "pipe" and not filters_syscalls(facts):
        return (
            "a guest that sets its limit on core files to 0 starts the host's core handler (kernel.core_pattern) as "
            "root by a crash, because no filter can be loaded here"
        )
    return ""


def network_namespace(facts: HostFacts, by: str = "") -> Enforcement:
    """Return the enforcement by a network namespace. ``by`` names the engine that makes it, if there is one."""
    note = "it holds only a loopback interface"
    if not filters_syscalls(facts):
        note += "; VM sockets belong to no network namespace, so the guest can reach them if the host has them"
    return Enforcement(f"{by}network namespace", _KERNEL, note)


def filter_steps(plan: Plan) -> list[Step]:
    """Return the step that loads the system-call filter, or no step if the host cannot load one."""
    if not filters_syscalls(plan.facts):
        return []
    name = "listening_filter" if plan.policy.security.explain_denials else "filter"
    return [(name, syscall_filter.program(plan))]


def filters_syscalls(facts: HostFacts) -> bool:
    """Return whether a system-call filter can be loaded here."""
    return facts.seccomp and facts.machine in FILTERED_MACHINES


def _syscalls(facts: HostFacts) -> Enforcement:
    if filters_syscalls(facts):
        return Enforcement("seccomp filter", _KERNEL, "an allow-list; every other call is refused")
    if facts.machine not in FILTERED_MACHINES:
        return Enforcement.absent(f"there is no filter for {facts.machine} yet")
    return Enforcement.absent(
        "no filter can be loaded here: the kernel lacks CONFIG_SECCOMP_FILTER, or a filter around stockade refuses it"
    )


def _cpu_time(facts: HostFacts) -> Enforcement:
    if facts.counts_cpu:
        return Enforcement("cgroup CPU usage, watched", _SUPERVISOR, "killed within 100 ms of CPU past it")
    return Enforcement(
        "RLIMIT_CPU and sampling of /proc",
        _SUPERVISOR,
        "CPU time of children that nobody waited for can escape the samples; wall_time x CPUs bounds it",
    )


def _cpu_rate(facts: HostFacts) -> Enforcement:
    if "cpu" in facts.cgroups:
        return Enforcement(f"cgroup v{facts.cgroups['cpu']} CPU bandwidth", _KERNEL)
    return Enforcement.absent(no_cgroup(facts, "cpu"))


def _io_read(facts: HostFacts) -> Enforcement:
    version = facts.cgroups.get("io")
    if version is None:
        return Enforcement.absent(no_cgroup(facts, "io"))
    name = "blkio.throttle.read_bps_device" if version == 1 else "io.max"
    return Enforcement(f"cgroup v{version} {name}", _KERNEL, _SLOW_READS)


def _memory(facts: HostFacts) -> Enforcement:
    version = facts.cgroups.get("memory")
    if version is not None:
        return _counted_memory(facts, version)
    note = (
        "worst case: processes x memory, plus the disk, which is in memory, plus buffers of pipes and Unix sockets, "
        "System V messages and other kernel memory, up to the kernel's own bound for each"
    )
    if not filters_syscalls(facts):
        note += (
            ", plus unmapped memory without a bound: memfd files, System V segments, dropped shared memory, "
            "huge pages that the host has reserved"
        )
    return Enforcement("RLIMIT_DATA and a sampled total", _SUPERVISOR, f"{note}; {no_cgroup(facts, 'memory')}")


def _counted_memory(facts: HostFacts, version: int) -> Enforcement:
    mechanism, notes = f"cgroup v{version} memory.max", [_AFTER_OOM]
    if version == 1:
        mechanism = "cgroup v1 memory.limit_in_bytes"
        if "sockets" in facts.cgroups:
            mechanism += ", memory.kmem.tcp.limit_in_bytes"
            notes.append(_UNCOUNTED)
    if "sockets" not in facts.cgroups:
        notes.append("no control group counts buffers of TCP and UDP here; tcp_mem and udp_mem of the host bound them")
    if "kernel" not in facts.cgroups:
        notes.append("kernel memory is not counted here: pipes, Unix sockets, page tables, file names")
    if not filters_syscalls(facts):
        notes.append("huge pages that the host has reserved are not counted, and no filter refuses them here")
    return Enforcement(mechanism, _KERNEL, "; ".join(notes))


def _swap(facts: HostFacts) -> Enforcement:
    if "swap" in facts.cgroups:
        name = "memory.swap.max" if facts.cgroups["swap"] == 2 else "memory.memsw.limit_in_bytes"
        return Enforcement(f"cgroup v{facts.cgroups['swap']} {name}", _KERNEL)
    if not facts.swap:
        return Enforcement("the host has no swap", _KERNEL, "as the probe found when the warden started")
    return Enforcement.absent("the host has swap and no control group counts it; " + no_cgroup(facts, "memory"))


def no_cgroup(facts: HostFacts, controller: str) -> str:
    """Return why a controller cannot be used."""
    if controller in facts.cgroup_lost:
        return f"the {controller} controller exists but stockade may not use it ({facts.cgroup_lost[controller]})"
    return f"no cgroup {controller} controller was found"
