"""The enforcement of each guarantee if an engine makes the container and holds its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.backends.shared import limits
from stockade.policy.guarantees import Enforcement, Guarantee, Strength

if TYPE_CHECKING:
    from stockade.backends.docker.engine import ContainerEngine
    from stockade.planning.facts import HostFacts

_KERNEL = Strength.KERNEL
_SUPERVISOR = Strength.SUPERVISOR
_ITS_OWN = "held by the engine: its group lies outside of the caller's own"
_DAMAGE = "the engine runs as root, and whoever may use its socket has root's rights"


def capabilities(
    facts: HostFacts, engine: ContainerEngine, security_opt: tuple[str, ...]
) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of each guarantee by ``engine``. A pure function of its arguments."""
    by = f"{engine.name} {engine.version}"
    return {
        **limits.held(facts),
        **_limits(facts, engine, by),
        Guarantee.WALL_TIME: Enforcement("timer of the warden", _SUPERVISOR, "killed within 50 ms of it"),
        Guarantee.ADDRESS_SPACE: Enforcement("RLIMIT_AS", _KERNEL, "set by the container's first process"),
        Guarantee.IO_READ: Enforcement.absent(f"the {engine.name} backend does not set it; use native"),
        Guarantee.SYSCALLS: _syscalls(facts, engine, by, security_opt),
        Guarantee.ENVIRONMENT: Enforcement(f"{by}: the image's variables and the policy's", _KERNEL),
        Guarantee.FILESYSTEM_READ: Enforcement(f"{by}: mount namespace, the image as root", _KERNEL),
        Guarantee.FILESYSTEM_WRITE: Enforcement(
            f"{by}: read-only root and mounts",
            _KERNEL,
            "a guest can set the times of the devices in /dev to the current time",
        ),
        Guarantee.NETWORK: limits.network_namespace(facts, f"{by}: "),
        Guarantee.PROCESS_VIEW: Enforcement(f"{by}: PID namespace, own /proc", _KERNEL),
        Guarantee.IPC: Enforcement(f"{by}: IPC and network namespaces", _KERNEL),
        Guarantee.PRIVILEGES: _privileges(engine, by),
        Guarantee.NO_SURVIVORS: Enforcement(
            f"{by}: PID namespace, which the warden kills", _KERNEL,
            "if caller and warden are killed, the engine client removes the container; if it is killed as well, the "
            "container runs until the next start of stockade removes it",
        ),
        Guarantee.DISK: Enforcement("tmpfs sizes", _KERNEL, "in the folders that the engine mounts, a part for each"),
    }  # fmt: skip


def _limits(facts: HostFacts, engine: ContainerEngine, by: str) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of what the engine's control groups hold, as it says itself."""
    group = f"{by}: control group of the container"
    swap = engine.lacks("SwapLimit")
    if swap and not facts.swap:
        held_swap = Enforcement("the host has no swap", _KERNEL, "as the probe found when the warden started")
    else:
        held_swap = _held(swap, f"{group}, memory and swap", _ITS_OWN)
    return {
        Guarantee.MEMORY: _held(
            engine.lacks("MemoryLimit"),
            f"{group}, memory",
            f"{_ITS_OWN}; on cgroup v1, the warden bounds buffers of TCP and UDP by as much again, or counts them",
        ),
        Guarantee.SWAP: held_swap,
        Guarantee.PROCESSES: _held(engine.lacks("PidsLimit"), f"{group}, pids", f"{_ITS_OWN}; tasks: threads count"),
        Guarantee.CPU_RATE: _held(engine.lacks("CpuCfsQuota"), f"{group}, CPU bandwidth", _ITS_OWN),
        Guarantee.CPU_TIME: Enforcement(
            "CPU usage of the container's control group, watched", _SUPERVISOR, "killed within 100 ms of CPU past it"
        ),
    }


def _held(lacking: str, mechanism: str, note: str) -> Enforcement:
    return Enforcement.absent(lacking) if lacking else Enforcement(mechanism, _KERNEL, note)


def _syscalls(facts: HostFacts, engine: ContainerEngine, by: str, security_opt: tuple[str, ...]) -> Enforcement:
    if any(option.partition("=")[0].partition(":")[0] == "seccomp" for option in security_opt):
        return Enforcement.absent("security_opt replaces the filter; name it as security.syscalls_file instead")
    if not engine.has_filter:
        return Enforcement.absent(f"the engine at {engine.socket} loads no seccomp filter")
    if not limits.filters_syscalls(facts):
        return Enforcement.absent(f"there is no filter for {facts.machine} yet")
    return Enforcement(
        f"{by}: seccomp filter", _KERNEL, "an allow-list; a refused call may have another errno than elsewhere"
    )


def _privileges(engine: ContainerEngine, by: str) -> Enforcement:
    where = (
        "in the engine's user namespace" if engine.maps_users else "the uid is the same on the host, for all containers"
    )
    where += "; device nodes in shown folders open as far as the engine's device group allows"
    note = where if engine.is_rootless else f"{where}; {_DAMAGE}"
    return Enforcement(f"{by}: ordinary user, no capabilities, no new privileges", _KERNEL, note)
