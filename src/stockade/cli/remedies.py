"""How to get what a host lacks: the command or setting for each reason that the kernel gave. Pure functions."""

from __future__ import annotations

import re

from stockade.planning.facts import HostFacts

_V2_CONTROLLERS = {"cpuacct": "cpu", "swap": "memory"}


def cgroup(controller: str, facts: HostFacts) -> str:
    """Return a command or setting that makes a controller usable, by the reason why it is not."""
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
    own = f"{place}/sandboxes-{facts.uid}"  # not our own prefix, because trees with that are swept
    return f"sudo install -d -o {facts.uid} {own} && echo $$ | sudo tee {own}/cgroup.procs; or sudo stockade ..."


def _place(reason: str) -> str:
    match = re.search(r" at (/.*): ", reason)
    return match[1] if match else "/sys/fs/cgroup"
