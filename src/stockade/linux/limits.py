"""Resource limits of one process, setrlimit(2)."""

from __future__ import annotations

import errno
import os
import resource

BY_NAME: dict[str, int] = {
    "as": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "msgqueue": resource.RLIMIT_MSGQUEUE,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "rtprio": resource.RLIMIT_RTPRIO,
    "sigpending": resource.RLIMIT_SIGPENDING,
    "stack": resource.RLIMIT_STACK,
}


def apply(limits: list[tuple[int, int, int]]) -> None:
    """Set each ``(resource, soft, hard)``, as ``prepare`` returns them."""
    try:
        for number, soft, hard in limits:
            resource.setrlimit(number, (soft, hard))
    except ValueError as error:  # Python's own error for these two (Modules/resource.c)
        code = errno.EPERM if "not allowed" in str(error) else errno.EINVAL
        raise OSError(code, f"setrlimit {number}: {os.strerror(code)}") from None


def forbid_cores() -> None:
    """Keep crashes of this process and its children from core files and core handlers, as far as the kernel allows it.

    With a limit of 1 byte, the kernel writes no file and starts no handler that it pipes a core to. With a limit of 0,
    it starts the handler (core(5), fs/coredump.c). A handler behind a socket learns of a crash under any limit.
    """
    most = core_ceiling()
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def core_ceiling() -> int:
    """Return the limit that ``forbid_cores`` can set: 1, or 0 if the hard limit is 0."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    return 1 if hard == resource.RLIM_INFINITY else min(1, hard)


def present() -> dict[str, tuple[int, int]]:
    """Return the limits in force."""
    return {name: resource.getrlimit(number) for name, number in BY_NAME.items()}


def ceilings() -> dict[int, int]:
    """Return the hard limits in force, by number."""
    return {number: resource.getrlimit(number)[1] for number in BY_NAME.values()}


def prepare(wanted: dict[str, tuple[int, int]], present: dict[int, int] | None = None) -> list[tuple[int, int, int]]:
    """Return the arguments of ``apply``, computed in advance: a tight limit may leave too little memory to compute
    them.

    A hard limit cannot be raised without CAP_SYS_RESOURCE, so each figure is cut to the limit in force. ``present`` is
    an earlier result of ``ceilings``, if nothing has changed since.
    """
    present = present or ceilings()
    prepared = []
    for name, (soft, hard) in wanted.items():
        number = BY_NAME[name]
        ceiling = present[number]
        most = max(soft, hard) if ceiling == resource.RLIM_INFINITY else ceiling
        prepared.append((number, min(soft, most), min(hard, most)))
    return prepared
