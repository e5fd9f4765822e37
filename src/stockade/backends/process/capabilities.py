"""What holds each guarantee for a guest that shares the host's namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.backends.shared import limits
from stockade.backends.shared.limits import filters_syscalls
from stockade.linux import landlock
from stockade.policy.guarantees import Enforcement, Guarantee, Strength

if TYPE_CHECKING:
    from stockade.planning.facts import HostFacts
    from stockade.policy.model import Policy

_KERNEL = Strength.KERNEL
_SUPERVISOR = Strength.SUPERVISOR
_TRUNCATE = 3  # the Landlock ABI that holds truncate(2)
_NO_NAMESPACES = "a backend with namespaces holds it"


def capabilities(facts: HostFacts, policy: Policy) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of each guarantee: a pure function of facts and policy."""
    return {
        **limits.held(facts),
        Guarantee.WALL_TIME: Enforcement("timer of the warden", _SUPERVISOR, "killed within 50 ms"),
        Guarantee.PROCESSES: _processes(facts),
        Guarantee.DISK: Enforcement.absent(
            f"nothing bounds the sum of what is written to the run's folder; file_size bounds each file; "
            f"{_NO_NAMESPACES}"
        ),
        Guarantee.FILESYSTEM_READ: _read(facts),
        Guarantee.FILESYSTEM_WRITE: _write(facts),
        Guarantee.NETWORK: _network(facts),
        Guarantee.PROCESS_VIEW: Enforcement.absent(
            f"the host's processes can be told by their numbers; {_reach(facts)}; {_NO_NAMESPACES}"
        ),
        Guarantee.IPC: _ipc(facts, policy),
        Guarantee.PRIVILEGES: _privileges(facts),
        Guarantee.ENVIRONMENT: Enforcement(
            "execve with a fresh environment", _KERNEL, "the host's name is no part of it, and can be read"
        ),
        Guarantee.NO_SURVIVORS: Enforcement(
            "a trusted keeper adopts and ends every descendant",
            _SUPERVISOR,
            "if somebody outside kills the keeper, its parent does as much; if both, what runs goes on",
        ),
    }


def _privileges(facts: HostFacts) -> Enforcement:
    held = limits.privileges(facts, "no capabilities, no new privileges")
    devices = "device nodes in folders that are shown can be used, as their modes say"
    return Enforcement(held.mechanism, held.strength, f"{held.note}; {devices}")


def _processes(facts: HostFacts) -> Enforcement:
    if "pids" in facts.cgroups:
        return Enforcement(f"cgroup v{facts.cgroups['pids']} pids.max", _KERNEL, "tasks: threads count")
    if facts.uid == 0:
        return Enforcement("RLIMIT_NPROC of a uid of its own", _KERNEL, "tasks: threads count")
    return Enforcement(
        "RLIMIT_NPROC above what the caller runs",
        _KERNEL,
        "tasks: threads count; those of the caller that end meanwhile make room, those that begin take it",
    )


def _read(facts: HostFacts) -> Enforcement:
    if facts.landlock:
        note = "names, sizes and owners of other files can still be looked up, as far as their permissions go"
        return Enforcement(f"Landlock ABI {facts.landlock}", _KERNEL, note)
    return Enforcement.absent(f"this kernel has no Landlock: whatever {_whose(facts)} may read; {_NO_NAMESPACES}")


def _write(facts: HostFacts) -> Enforcement:
    if not facts.landlock:
        return Enforcement.absent(f"this kernel has no Landlock: whatever {_whose(facts)} may write; {_NO_NAMESPACES}")
    if not filters_syscalls(facts):
        return Enforcement.absent("mode, owner, times and attributes of files are for a filter to hold; none is here")
    how = f"Landlock ABI {facts.landlock}"
    if facts.landlock < _TRUNCATE:
        gap = landlock.closed_later(facts.landlock)[0]
        return Enforcement.absent(f"with {how} {gap}; Linux 6.2 or newer holds it, or a backend with namespaces")
    return Enforcement(
        f"{how}, seccomp filter", _KERNEL, "changes of mode, owner, times and attributes are refused everywhere"
    )


def _network(facts: HostFacts) -> Enforcement:
    if not filters_syscalls(facts):
        return Enforcement.absent(f"no filter can be loaded here, and Landlock knows only TCP; {_NO_NAMESPACES}")
    return Enforcement("seccomp filter", _KERNEL, "no socket can be made but pairs; not even a loopback")


def _ipc(facts: HostFacts, policy: Policy) -> Enforcement:
    if not filters_syscalls(facts):
        return Enforcement.absent(f"no filter can be loaded here; {_NO_NAMESPACES}")
    if policy.network == "host":
        return Enforcement.absent(
            "with the host's network come unix sockets of the host, named ones as far as permissions go; "
            f"{_NO_NAMESPACES}"
        )
    if not facts.landlock:
        return Enforcement("seccomp filter", _KERNEL, "shared memory in files is as open as other files")
    return Enforcement(f"seccomp filter, Landlock ABI {facts.landlock}", _KERNEL, "none at all, inside either")


def _reach(facts: HostFacts) -> str:
    if facts.uid == 0:
        return "signals do not reach them, since they have another uid"
    if facts.landlock >= landlock.SCOPED_SINCE:
        return "signals do not reach them (Landlock)"
    return "signals are refused altogether (seccomp)"


def _whose(facts: HostFacts) -> str:
    return "a uid without any files" if facts.uid == 0 else "you"
