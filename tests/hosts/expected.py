"""The expected results of each kind of caller: the place of its groups, or the reason for having no group."""

from __future__ import annotations

from tests.hosts.suite import MAIN, Held

_USER = "/sys/fs/cgroup/user.slice/user-1000.slice"
BELOW = {
    "root": "/sys/fs/cgroup",
    "service": "/sys/fs/cgroup/system.slice/program.service",
    "delegated": f"{_USER}/user@1000.service",
    "delegated-limited": f"{_USER}/user@1000.service/program",
    "given": "/sys/fs/cgroup/given",
    "scope": f"{_USER}/run.scope",
    "crowded-scope": f"{_USER}/run.scope",
    "container": "/sys/fs/cgroup",
}
"""The parent of a run's groups: never above the group delegated to the caller, nor outside a limit on the caller."""
WHY_NOT = {
    "none": "Permission denied",
    "container-read-only": "Read-only file system",
    "crowded-service": "other processes than the caller's own (sleep ",
    "crowded-below": "other processes than the caller's own (sleep ",
}
_CONTROLLERS = dict.fromkeys(("memory", "pids", "cpu", "swap", "sockets", "kernel", "cpuacct"), 2)


def mistakes(held: Held) -> list[str]:
    """Return every expectation that does not hold."""
    found = _with_groups(held) if held.kind in BELOW else _without(held)
    found["one limit holds for a tree of processes"] = held.ran("memory_together").get("limit") == "memory"
    found["the count of processes is exact"] = held.ran("processes").get("stdout", "").split() == ["11", "7"]
    found[f"nothing is left ({', '.join(held.left)})"] = not held.left
    if held.kind in MAIN:
        found["the warden survives all runs"] = held.ran("afterwards").get("stdout") == "well\n"
        found["cpu_time is met"] = held.ran("cpu_time").get("limit") == "cpu_time"
    return [what for what, holds in found.items() if not holds]


def _with_groups(held: Held) -> dict[str, bool]:
    found = {f"{limit} is the kernel's": held.of(limit).endswith("[kernel]") for limit in _KERNELS}
    found["every controller is of cgroup v2"] = _CONTROLLERS.items() <= held.facts["cgroups"].items()
    found["groups are below the delegated group"] = held.facts["paths"] == [BELOW[held.kind]]
    found["not a byte past the limit"] = held.ran("memory_together").get("peak_memory") == 128 << 20
    if held.kind in MAIN:
        for run in ("memory", "memory_files"):
            ran = held.ran(run)
            found[f"{run} meets the limit"] = ran.get("limit") == "memory" and ran["peak_memory"] <= 64 << 20
        rate = held.ran("cpu_rate")
        used = rate["cpu_seconds"] / rate["wall_seconds"] if rate.get("wall_seconds") else -1.0
        found[f"cores are held (used {used:.2f} of 0.25)"] = 0.15 < used < 0.35
    return found


_KERNELS = ("memory", "swap", "processes", "cpu_rate")


def _without(held: Held) -> dict[str, bool]:
    lost = held.facts["lost"]
    return {
        "there are no groups": held.facts["cgroups"] == {},
        "the reason is reported": all(WHY_NOT[held.kind] in lost.get(name, "") for name in ("memory", "pids", "cpu")),
        "memory is reported as weaker": held.of("memory").endswith("[supervisor]"),
        "RLIMIT_NPROC holds processes": held.of("processes") == "RLIMIT_NPROC in a user namespace [kernel]",
    }
