"""Linux capabilities that a guest may be given the use of: what one would mean to it, and why most mean nothing.

A guest stands in a user namespace that owns nothing, so a capability in it is power over nothing, or over what the
guest could make with it and must not (docs/adr, "The guest's user namespace owns nothing"). Source: capabilities(7),
user_namespaces(7) and the checks of the kernel (``ns_capable``, ``capable``).
"""

from __future__ import annotations

from typing import Final

KEPT: Final = {
    "CAP_NET_BIND_SERVICE": "ports below 1024 of its own network, by a setting of that network; its sets stay empty",
}
"""What can be had, and how it is given."""

_HOSTS = "the kernel asks for it in the host's own user namespace, where no guest is"
_ABOVE = "what it governs belongs to a user namespace above the guest's, so it would have no effect"
_OWN_ONLY = "the guest has one user id and one group id, so all that it could act upon is its own already"
_REASONS: Final = {
    _HOSTS: "AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF IPC_LOCK LEASE LINUX_IMMUTABLE MAC_ADMIN "
    "MAC_OVERRIDE MKNOD PERFMON SYSLOG SYS_MODULE SYS_NICE SYS_PACCT SYS_RAWIO SYS_TIME SYS_TTY_CONFIG WAKE_ALARM",
    _ABOVE: "IPC_OWNER NET_ADMIN NET_BROADCAST NET_RAW SYS_BOOT",
    _OWN_ONLY: "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID",
    "capabilities of programs and set-user-id have no effect here": "SETFCAP SETPCAP",
    "over its own processes it gives next to nothing more, and those of others are out of sight": "SYS_PTRACE",
    "it governs how many user namespaces there may be below the guest's own, and there must be none": "SYS_RESOURCE",
    "it would let a guest disguise which program it runs, and no more": "CHECKPOINT_RESTORE",
    "a new root is nothing that a folder is not, but for more of the kernel in reach": "SYS_CHROOT",
    "it would let the guest make namespaces and mount in them: the part of the kernel in which most privilege "
    "escalations were found": "SYS_ADMIN",
}
_WHY_NOT: Final = {f"CAP_{name}": reason for reason, names in _REASONS.items() for name in names.split()}


def refusal(name: str) -> str:
    """Return why the capability ``name`` cannot be kept, an empty text if it can."""
    if name in KEPT:
        return ""
    there = f"there is: {', '.join(KEPT)}"
    if name not in _WHY_NOT:
        return f"{name!r} is no capability's name that is known here ({there})"
    return f"{name} cannot be kept: {_WHY_NOT[name]} ({there})"
