"""firejail's command line (firejail(1)): a pure function of a plan, a job, and what lies in the host's root."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stockade.backends.shared.guest_environment import (
    HOST_NAME,
    Showing,
    host_paths,
    lies_below,
    network_files,
    program_folders,
)
from stockade.core.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stockade.planning.plan import Plan
    from stockade.runs.job import Command

STATUS, PROGRAM, CONFIGURATION = 199, 200, 201
"""Descriptors: what is said of the way to the guest, the program that leads there, and what it is told."""
CHANNEL = 3
ENGINE_TASKS = 2
"""Tasks of firejail's: one outside, and its own first process inside."""
WALLS = (
    "--quiet", "--noprofile", "--ipc-namespace", "--caps.drop=all", "--nonewprivs", "--nogroups", "--private-dev",
    "--no3d", "--nodvd", "--nosound", "--novideo", "--nou2f", "--noinput", "--noprinters", "--nodbus",
    "--deterministic-exit-code", "--deterministic-shutdown",
)  # fmt: skip
_UNLISTED = "--notv"  # one more kind of device, which firejail takes and its help leaves out
_OWN = ("/proc", "/dev", "/etc", "/run")  # what firejail itself makes anew, or needs
_ETC = "/etc/"
_KEEP_RUN = "--whitelist=/run/firejail"  # it cannot be hidden: firejail works there. All else in /run is.
_PLAIN = re.compile(r"/[\w./@:+=~ -]*")


def arguments(
    plan: Plan, command: Command, *, place: str, workspace: str, inputs: Sequence[str], root: Iterable[str]
) -> list[str]:
    """Return the options. ``root`` names what lies in the host's root folder, but for symbolic links."""
    policy, facts = plan.policy, plan.facts
    system = [path for path, target in facts.system if not target]
    paths = [*host_paths(policy, command.readable, command.packages), *((path, Showing.READ) for path in inputs)]
    paths += [(path, Showing.PROGRAM) for path in program_folders(facts, command.readable)]
    shown = [(path, how) for path, how in paths if not path.startswith(_ETC)]
    check(path for path, _ in paths if path not in network_files())
    visible = [place, *(path for path, _ in shown if not lies_below(path, system))]
    words = [*WALLS, _UNLISTED, f"--hostname={HOST_NAME}", f"--keep-fd={','.join(map(str, _kept(command)))}"]
    if policy.network == "none":
        words += ("--net=none", "--x11=none")
    if facts.uid != 0:
        words.append("--noroot")  # a user namespace: where no group counts, the guest's processes are counted apart
    words.append(f"--private-etc={','.join(_etc(plan))}")
    words += _hidden(root, visible, system)
    words += [f"--whitelist={path}" for path in visible if path.count("/") > 1]
    words += _sealed(place, shown, visible)
    words += [f"--read-write={path}" for path in _of_its_own(place, workspace)]
    return [*words, f"--private-cwd={workspace}"]


def check(paths: Iterable[str]) -> None:
    """Refuse before anything starts what firejail would take for a pattern, or has made anew."""
    for path in paths:
        if not _PLAIN.fullmatch(path) or path.startswith("/~"):
            raise JobError(f"filesystem: {path!r}: firejail takes names of letters, digits, blanks and ./@:+=~-_ only")
        if lies_below(path, _OWN):
            raise JobError(f"filesystem: {path} cannot be shown: firejail makes {_top(path)} anew")


def _kept(command: Command) -> tuple[int, ...]:
    return (*((CHANNEL,) if command.channel else ()), STATUS, PROGRAM, CONFIGURATION)


def _etc(plan: Plan) -> list[str]:
    """Return names below /etc to copy: firejail makes passwd and group of its own from the host's."""
    system = [path for path, target in plan.facts.system if not target and path.startswith(_ETC)]
    network = network_files() if plan.policy.network == "host" else ()
    return [path.removeprefix(_ETC) for path in (*system, *network, "/etc/passwd", "/etc/group")]


def _hidden(root: Iterable[str], visible: Sequence[str], system: Sequence[str]) -> list[str]:
    """Hide each entry of the root that is not the system's and holds nothing that is shown."""
    kept = {*_OWN, *map(_top, visible), *map(_top, system)}
    return [*(f"--blacklist=/{name}" for name in sorted(root) if f"/{name}" not in kept), _KEEP_RUN]


def _sealed(place: str, shown: Sequence[tuple[str, Showing]], visible: Sequence[str]) -> list[str]:
    """Make read-only what is not for writing. firejail opens again only what belongs to the user, so a folder of the
    root in which something else is for writing stays open: it is an empty one of the sandbox's own."""
    writable = [path for path, how in shown if how is Showing.WRITE]
    # In /proc a guest could lower its own oom_score_adj, and the kernel would end other programs first.
    candidates = dict.fromkeys(("/dev", "/proc", *map(_top, visible)))
    tops = [top for top in candidates if not any(lies_below(path, (top,)) for path in writable)]
    closed = (*tops, f"{place}/job", *(path for path, how in shown if how is not Showing.WRITE))
    return [f"--read-only={path}" for path in closed]


def _of_its_own(place: str, workspace: str) -> tuple[str, ...]:
    return (f"{place}/tmp", workspace) if lies_below(workspace, (place,)) else (f"{place}/tmp",)


def _top(path: str) -> str:
    return "/" + path.split("/")[1]
