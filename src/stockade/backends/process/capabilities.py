"""The enforcement of each guarantee for a guest that shares the host's namespaces."""

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
_TRUNCATE = 3  # the first Landlock ABI that restricts truncate(2)
_NO_NAMESPACES = "a backend with namespaces holds it"


def capabilities(facts: HostFacts, policy: Policy) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of each guarantee. A pure function of facts and policy."""
    return {
        **limits.held(facts),
        Guarantee.WALL_TIME: Enforcement("timer of the warden", _SUPERVISOR, "killed within 50 ms"),
        Guarantee.PROCESSES: _processes(facts),
        Guarantee.DISK: Enforcement.absent(
            f"nothing bounds the sum of the files in the run's folder; file_size bounds each file; {_NO_NAMESPACES}"
        ),
        Guarantee.FILESYSTEM_READ: _read(facts),
        Guarantee.FILESYSTEM_WRITE: _write(facts),
        Guarantee.NETWORK: _network(facts),
        Guarantee.PROCESS_VIEW: Enforcement.absent(
            f"a guest can find out which process numbers exist on the host; {_reach(facts)}; {_NO_NAMESPACES}"
        ),
        Guarantee.IPC: _ipc(facts, policy),
        Guarantee.PRIVILEGES: _privileges(facts),
        Guarantee.ENVIRONMENT: Enforcement(
            "execve with a fresh environment",
            _KERNEL,
            "the environment lacks the host's name, but a guest can read it elsewhere",
        ),
        Guarantee.NO_SURVIVORS: Enforcement(
            "a trusted reaper adopts and ends every descendant",
            _SUPERVISOR,
            "if another process kills the reaper, its parent ends them; if both are killed, descendants keep running",
        ),
    }


def _privileges(facts: HostFacts) -> Enforcement:
    held = limits.privileges(facts, "no capabilities, no new privileges")
    devices = "a guest can use device nodes in shown folders, as far as their modes allow"
    return Enforcement(held.mechanism, held.strength, f"{held.note}; {devices}")


def _processes(facts: HostFacts) -> Enforcement:
    if "pids" in facts.cgroups:
        return Enforcement(f"cgroup v{facts.cgroups['pids']} pids.max", _KERNEL, "tasks: threads count")
    if facts.uid == 0:
        return Enforcement("RLIMIT_NPROC of a uid of its own", _KERNEL, "tasks: threads count")
    return Enforcement(
        "RLIMIT_NPROC above what the caller runs",
        _KERNEL,
        "tasks: threads count; the bound is off by the caller's own tasks that start or end during the run",
    )


def _read(facts: HostFacts) -> Enforcement:
    if facts.landlock:
        note = "a guest can still look up names, sizes and owners of other files, as far as permissions allow"
        return Enforcement(f"Landlock ABI {facts.landlock}", _KERNEL, note)
    return Enforcement.absent(
        f"this kernel has no Landlock: a guest reads whatever {_whose(facts)} can read; {_NO_NAMESPACES}"
    )


def _write(facts: HostFacts) -> Enforcement:
    if not facts.landlock:
        return Enforcement.absent(
            f"this kernel has no Landlock: a guest writes whatever {_whose(facts)} can write; {_NO_NAMESPACES}"
        )
    if not filters_syscalls(facts):
        return Enforcement.absent(
            "only a filter can protect mode, owner, times and attributes of files, and no filter can be loaded here"
        )
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
    return Enforcement("seccomp filter", _KERNEL, "a guest can make only socket pairs; it has not even a loopback")


def _ipc(facts: HostFacts, policy: Policy) -> Enforcement:
    if not filters_syscalls(facts):
        return Enforcement.absent(f"no filter can be loaded here; {_NO_NAMESPACES}")
    if policy.network == "host":
        return Enforcement.absent(
            "the host's network includes its Unix sockets; those with a path are open as far as permissions allow; "
            f"{_NO_NAMESPACES}"
        )
    if not facts.landlock:
        return Enforcement("seccomp filter", _KERNEL, "shared memory in files is protected only as other files are")
    return Enforcement(f"seccomp filter, Landlock ABI {facts.landlock}", _KERNEL, "no IPC, not even inside the sandbox")


def _reach(facts: HostFacts) -> str:
    if facts.uid == 0:
        return "signals do not reach them, since they have another uid"
    if facts.landlock >= landlock.SCOPED_SINCE:
        return "signals do not reach them (Landlock)"
    return "signals are refused altogether (seccomp)"


def _whose(facts: HostFacts) -> str:
    return "a uid without any files" if facts.uid == 0 else "you"
