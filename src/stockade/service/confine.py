"""Take from the front every right that it does not need for its open descriptors."""

from __future__ import annotations

import os
from pathlib import Path

from stockade.core.errors import SetupError
from stockade.linux import faults, landlock, processes
from stockade.linux.seccomp import Arch, compile_table
from stockade.linux.seccomp import install as seccomp
from stockade.linux.seccomp.front import front_table


def confine(uid: int | None, parent: int) -> None:
    """Keep the open descriptors of this process; close every way to a file, an outgoing connection or a program.

    ``uid`` is who to become; ``None`` stays. The process dies with the process behind the pidfd ``parent``. It must
    have one thread: Landlock restricts no other one. Raises ``SetupError`` if a right cannot be given up.
    """
    if len([*Path("/proc/self/task").iterdir()]) != 1:
        raise SetupError("the front has threads already, which would keep their rights")
    try:
        program = compile_table(front_table(Arch(os.uname().machine)))
        if os.geteuid() == 0:
            processes.empty_bounding_set()
        processes.give_up_rights(uid, parent)
        os.close(parent)
        if landlock.abi():  # the filter refuses the same calls; this holds if the filter has a gap
            landlock.restrict(landlock.Ruleset())
        seccomp.install(program)
    except OSError as error:
        reason = faults.explain("confine the process that faces the network", error)
        raise SetupError(f"{reason}; the service does not start without this") from error
