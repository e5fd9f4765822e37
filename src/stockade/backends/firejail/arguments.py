"""Builds firejail's command line (firejail(1)): a pure function of plan, job and the entries of the host's root."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stockade.backends.shared.guest_environment import (
    HOST_NAME,
    HOSTS,
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
"""Descriptors inside: for progress reports, for the program that starts the guest, and for its configuration."""
CHANNEL = 3
OWN_HOSTS = "hosts"
"""The file in the run's folder that firejail shows as /etc/hosts, where the host's is not shown."""
ENGINE_TASKS = 2
"""Tasks of firejail itself: one outside the sandbox, and its own first process inside."""
WALLS = (
    "--quiet", "--noprofile", "--ipc-namespace", "--caps.drop=all", "--nonewprivs", "--nogroups", "--private-dev",
    "--no3d", "--nodvd", "--nosound", "--novideo", "--nou2f", "--noinput", "--noprinters", "--nodbus",
    "--deterministic-exit-code", "--deterministic-shutdown",
)  # fmt: skip
_UNLISTED = "--notv"  # hides one more kind of device; firejail accepts the option but its help does not list it
_OWN = ("/proc", "/dev", "/etc", "/run")  # firejail replaces these, or needs them
_ETC = "/etc/"
_KEEP_RUN = (
    "--whitelist=/run/firejail"  # firejail works there, so it cannot be hidden; everything else in /run is hidden
)
_PLAIN = re.compile(r"/[\w./@:+=~ -]*")


def arguments(
    plan: Plan, command: Command, *, place: str, workspace: str, inputs: Sequence[str], root: Iterable[str]
) -> list[str]:
    """Return the options. ``root`` names the entries of the host's root folder, except symbolic links."""
    policy, facts = plan.policy, plan.facts
    system = [path for path, target in facts.system if not target]
    paths = [*host_paths(policy, command.readable, command.packages), *((path, Showing.READ) for path in inputs)]
    paths += [(path, Showing.PROGRAM) for path in program_folders(facts, command.readable)]
    shown = [(path, how) for path, how in paths if not path.startswith(_ETC)]
    check(path for path, _ in paths if path not in network_files(plan.policy))
    visible = [place, *(path for path, _ in shown if not lies_below(path, system))]
    options = [*WALLS, _UNLISTED, f"--hostname={HOST_NAME}", f"--keep-fd={','.join(map(str, _kept(command)))}"]
    if policy.network != "host":
        options += ("--net=none", "--x11=none", f"--hosts-file={place}/{OWN_HOSTS}")
    if facts.uid != 0:
        options.append(
            "--noroot"
        )  # adds a user namespace, in which the guest's processes are counted alone if no control group counts them
    options.append(f"--private-etc={','.join(_etc(plan))}")
    options += _hidden(root, visible, system)
    options += [f"--whitelist={path}" for path in visible if path.count("/") > 1]
    options += _sealed(place, shown, visible)
    options += [f"--read-write={path}" for path in _of_its_own(place, workspace)]
    return [*options, f"--private-cwd={workspace}"]


def check(paths: Iterable[str]) -> None:
    """Refuse paths that firejail would read as patterns, or that lie in a folder that firejail replaces."""
    for path in paths:
        if not _PLAIN.fullmatch(path) or path.startswith("/~"):
            raise JobError(f"filesystem: {path!r}: firejail accepts only letters, digits, blanks and ./@:+=~-_")
        if lies_below(path, _OWN):
            raise JobError(f"filesystem: {path} cannot be shown: firejail replaces {_top(path)}")


def _kept(command: Command) -> tuple[int, ...]:
    return (*((CHANNEL,) if command.channel else ()), STATUS, PROGRAM, CONFIGURATION)


def _etc(plan: Plan) -> list[str]:
    """Return the names below /etc to copy. firejail derives its own passwd and group from the host's."""
    system = [path for path, target in plan.facts.system if not target and path.startswith(_ETC)]
    network = (*network_files(plan.policy), *(() if plan.policy.network == "host" else (HOSTS,)))
    return [path.removeprefix(_ETC) for path in (*system, *network, "/etc/passwd", "/etc/group")]


def _hidden(root: Iterable[str], visible: Sequence[str], system: Sequence[str]) -> list[str]:
    """Return the options that hide each entry of the root that is neither part of the system nor holds a shown path."""
    kept = {*_OWN, *map(_top, visible), *map(_top, system)}
    return [*(f"--blacklist=/{name}" for name in sorted(root) if f"/{name}" not in kept), _KEEP_RUN]


def _sealed(place: str, shown: Sequence[tuple[str, Showing]], visible: Sequence[str]) -> list[str]:
    """Return the options that make every path read-only that the guest must not write to.

    firejail makes a path writable again only if it belongs to the user. So a top folder that holds another writable
    path stays writable: inside the sandbox it is an empty folder of the sandbox's own.
    """
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
