"""How to get what a host lacks: the command or the setting, given the reason that the kernel gave. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stockade._facts import HostFacts

SETTINGS = {
    "user.max_user_namespaces": "/proc/sys/user/max_user_namespaces",
    "kernel.unprivileged_userns_clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
}
"""The settings that decide on user namespaces, and where each can be read; not every kernel has them all."""

_OPEN_VALUES = {
    "user.max_user_namespaces": "15000",
    "kernel.unprivileged_userns_clone": "1",
    "kernel.apparmor_restrict_unprivileged_userns": "0",
}
_CONTAINER = (
    "in a container: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined"
)
_V2_CONTROLLERS = {"cpuacct": "cpu", "swap": "memory"}


def namespaces(facts: HostFacts, settings: Mapping[str, str]) -> str:
    """Return what lets this user make namespaces."""
    closed = [name for name, value in settings.items() if _is_closed(name, value)]
    if closed:
        return "sudo sysctl -w " + " ".join(f"{name}={_OPEN_VALUES[name]}" for name in closed)
    return f"{_CONTAINER}; else sudo stockade ..." if facts.uid else f"{_CONTAINER} --cap-add SYS_ADMIN"


def _is_closed(name: str, value: str) -> bool:
    if name == "kernel.apparmor_restrict_unprivileged_userns":
        return value not in ("", "0")
    return value == "0"


def cgroup(controller: str, facts: HostFacts) -> str:
    """Return what makes a controller usable, by what stands in its way."""
    reason = facts.cgroup_lost.get("memory" if controller == "swap" else controller, "")
    if controller == "swap" and "memory" in facts.cgroups:
        return "boot Linux with swapaccount=1"
    if not reason:
        name = _V2_CONTROLLERS.get(controller, controller)
        return (
            f"where /sys/fs/cgroup/cgroup.controllers names it: systemd-run --user --scope -p Delegate=yes stockade "
            f"...; where nothing does: boot Linux with cgroup_enable={name}"
        )
    if "Read-only" in reason:
        return "docker run --cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw"
    place = _place(reason)
    if "v2" in reason:
        return "systemd-run --user --scope -p Delegate=yes stockade ..., or sudo stockade ..."
    own = f"{place}/sandboxes-{facts.uid}"  # not our own prefix: trees of that are swept
    return f"sudo install -d -o {facts.uid} {own} && echo $$ | sudo tee {own}/cgroup.procs; or sudo stockade ..."


def _place(reason: str) -> str:
    match = re.search(r" at (/.*): ", reason)
    return match[1] if match else "/sys/fs/cgroup"
