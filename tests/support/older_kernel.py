"""``python -m tests.support.older_kernel FACILITY[,FACILITY] COMMAND…``: run a command as under an older kernel.

A system-call filter around the command answers like a kernel that lacks the facility. Nothing else is simulated.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
import sys

from stockade.linux.seccomp import install

# From asm-generic/unistd.h; one number on both architectures.
MISSING = {
    "mount_setattr": (442,),  # before Linux 5.12
    "landlock": (444, 445, 446),  # before Linux 5.13
    "clone3": (435,),  # before Linux 5.3, or refused by an outer filter
}
OUTER = {"seccomp": {"x86_64": (317,), "aarch64": (277,)}}  # refused by a filter around stockade
FLAGGED = {"close_range_cloexec": (436, 4)}  # the flag came with Linux 5.11: EINVAL before that
FACILITIES = (*MISSING, *FLAGGED)
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_SET = 0x45
_ERRNO, _ALLOW = 0x0005_0000, 0x7FFF_0000
_NUMBER_AT, _THIRD_ARGUMENT_AT = 0, 32


def program(facilities: list[str]) -> bytes:
    """Return the filter that hides ``facilities``."""
    lines: list[tuple[int, int, int, int]] = []
    for facility in facilities:
        for number in (*MISSING.get(facility, ()), *OUTER.get(facility, {}).get(platform.machine(), ())):
            lines += [
                (_LOAD, 0, 0, _NUMBER_AT),
                (_EQUAL, 0, 1, number),
                (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
            ]
        if facility in FLAGGED:
            number, flag = FLAGGED[facility]
            lines += [
                (_LOAD, 0, 0, _NUMBER_AT),
                (_EQUAL, 0, 3, number),
                (_LOAD, 0, 0, _THIRD_ARGUMENT_AT),
                (_SET, 0, 1, flag),
                (_RETURN, 0, 0, _ERRNO | errno.EINVAL),
            ]
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def main() -> None:
    """Load the filter and become the command."""
    facilities = sys.argv[1].split(",")
    unknown = set(facilities) - {*FACILITIES, *OUTER}
    if unknown or platform.machine() not in ("x86_64", "aarch64"):
        raise SystemExit(f"cannot hide {', '.join(sorted(unknown)) or 'anything here'}; known: {', '.join(FACILITIES)}")
    install.install(program(facilities))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
