"""The Linux capabilities that a guest may use, and why most have no meaning for it.

A guest lives in a user namespace that owns nothing. There, a capability gives power over nothing, or over objects that
the guest could create with it and must not (docs/adr, "The guest's user namespace owns nothing"). Source:
capabilities(7), user_namespaces(7) and the checks of the kernel (``ns_capable``, ``capable``).
"""

from __future__ import annotations

from typing import Final

KEPT: Final = {
    "CAP_NET_BIND_SERVICE": "ports below 1024 of its own network, by a setting of that network; its sets stay empty",
}
"""The capabilities that a policy may name, and how stockade provides each."""

_HOSTS = "the kernel requires it in the host's own user namespace, and no guest is in there"
_ABOVE = "it governs objects of a user namespace above the guest's, so it would have no effect"
_OWN_ONLY = "the guest has one user id and one group id, so it already owns all that it could act upon"
_REASONS: Final = {
    _HOSTS: "AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF IPC_LOCK LEASE LINUX_IMMUTABLE MAC_ADMIN "
    "MAC_OVERRIDE MKNOD PERFMON SYSLOG SYS_MODULE SYS_NICE SYS_PACCT SYS_RAWIO SYS_TIME SYS_TTY_CONFIG WAKE_ALARM",
    _ABOVE: "IPC_OWNER NET_ADMIN NET_BROADCAST NET_RAW SYS_BOOT",
    _OWN_ONLY: "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID",
    "capabilities of programs and set-user-id have no effect here": "SETFCAP SETPCAP",
    "it adds next to nothing over the guest's own processes, and other processes are invisible": "SYS_PTRACE",
    "it governs the number of user namespaces below the guest's own, which must stay 0": "SYS_RESOURCE",
    "it would only let a guest disguise which program it runs": "CHECKPOINT_RESTORE",
    "a new root gives no more than a folder does, and exposes more of the kernel": "SYS_CHROOT",
    "it would let the guest create namespaces and mount in them: most privilege escalations were found in "
    "that part of the kernel": "SYS_ADMIN",
}
_WHY_NOT: Final = {f"CAP_{name}": reason for reason, names in _REASONS.items() for name in names.split()}


def refusal(name: str) -> str:
    """Return why a policy cannot keep the capability ``name``; an empty text if it can."""
    if name in KEPT:
        return ""
    there = f"available: {', '.join(KEPT)}"
    if name not in _WHY_NOT:
        return f"{name!r} is not a known capability ({there})"
    return f"{name} cannot be kept: {_WHY_NOT[name]} ({there})"
