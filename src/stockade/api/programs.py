"""Find the program of a command: in the sandbox, or on the host together with what the sandbox must show for it."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from stockade.backends.shared.guest_environment import MOUNT_TARGETS, environment, lies_below
from stockade.core.errors import JobError
from stockade.languages import registry as languages
from stockade.planning.plan import Plan
from stockade.policy.guarantees import Guarantee, Strength
from stockade.runs.job import Command, Job

_PYTHON = re.compile(r"python[0-9.]*")


def command_of(job: Job, plan: Plan, *, shows_programs: bool) -> Command:
    """Return the command of ``job`` with its packages and its program.

    Where the sandbox ``shows_programs`` of the host, its own PATH comes first. A Python that only the caller's PATH has
    is shown with its folders. Raises ``JobError`` for any other program that exists on the host alone: the error says
    how to show it.
    """
    command = _with_packages(job, plan)
    host = _only_on_host(job, plan, command) if shows_programs else None
    if host is None:
        return command  # a program that is nowhere is the run's own error
    if _PYTHON.fullmatch(Path(host).name):
        return _with_python(command, host)
    raise JobError(_refusal(job.argv[0], host, _shown(plan, command)))


def _only_on_host(job: Job, plan: Plan, command: Command) -> str | None:
    """Return the path of the program if it exists on the host, and the sandbox certainly does not have it."""
    program, shown = job.argv[0], _shown(plan, command)
    if program.startswith("/"):
        hides = plan.enforcement[Guarantee.FILESYSTEM_READ].strength is not Strength.ABSENT
        return program if hides and shutil.which(program) and not _is_shown(program, shown) else None
    if "/" in program or _may_be_on(environment(plan.policy, job, command)["PATH"], program, shown):
        return None
    found = shutil.which(program)
    return found if found is not None and found.startswith("/") else None


def _with_packages(job: Job, plan: Plan) -> Command:
    """Return the command with ``job.packages`` shown, and named by the variables of the language that they are for."""
    if job.packages is None:
        return Command(argv=job.argv)
    folder, programs, own, readable = _environment(Path(job.packages))
    path = environment(plan.policy, job, Command(argv=job.argv))["PATH"]
    variables = {**own, "PATH": f"{programs}:{path}"}
    return Command(argv=job.argv, readable=readable, packages=(folder,), environment=variables)


def _environment(folder: Path) -> tuple[str, Path, dict[str, str], tuple[str, ...]]:
    """Return the folder to show, its programs, its variables, and what else of the host its interpreter needs."""
    if (folder / "pyvenv.cfg").is_file():
        places = languages.find("python").interpreter(str(folder)).places
        readable = tuple(each for each in places if each != str(folder))
        return str(folder), folder / "bin", {"VIRTUAL_ENV": str(folder)}, readable
    modules = folder if folder.name == "node_modules" else folder / "node_modules"
    if modules.is_dir():
        return str(modules), modules / ".bin", {"NODE_PATH": str(modules)}, ()
    for gems in (folder, *sorted(folder.glob("ruby/*"))):
        if (gems / "specifications").is_dir():
            return str(gems), gems / "bin", {"GEM_PATH": str(gems)}, ()
    raise JobError(
        f"packages: {folder} is not a virtual environment (pyvenv.cfg), not a node_modules folder, and not a gem "
        f"folder (specifications); name one of these"
    )


def _shown(plan: Plan, command: Command) -> list[str]:
    """Return the host paths that the sandbox shows at their own place."""
    files = plan.policy.filesystem
    workspace = () if files.workspace == "empty" else (files.workspace,)
    system = (path for path, _ in plan.facts.system)
    return [*system, *command.readable, *command.packages, *files.read, *files.writable, *workspace]


def _is_shown(path: str, shown: Iterable[str]) -> bool:
    """Return whether the sandbox shows ``path``, and the file behind it if the path is a link."""
    return lies_below(os.path.normpath(path), shown) and lies_below(os.path.realpath(path), shown)


def _may_be_on(path: str, program: str, shown: Iterable[str]) -> bool:
    """Return whether ``program`` is in a folder of the sandbox's ``path``, or in one that only the run fills."""
    for folder in path.split(":"):
        filled_by_run = not folder.startswith("/") or lies_below(os.path.normpath(folder), MOUNT_TARGETS)
        if filled_by_run and not lies_below(os.path.normpath(folder), shown):
            return True
        found = shutil.which(program, path=folder)
        if found is not None and _is_shown(found, shown):
            return True
    return False


def _with_python(command: Command, host: str) -> Command:
    """Return the command with the Python at ``host`` as its program, and the folders that this Python consists of."""
    found = languages.find("python").interpreter(_trusted(host))
    for place in found.places:
        if any(lies_below(own, (place,)) for own in (str(_home()), str(Path.cwd()))):
            raise JobError(
                f"{host}: the folder of this Python, {place}, contains your home or the current folder, so it is not "
                f"shown by itself; name it if the code may read all of it: filesystem.read or --read {place}"
            )
    readable = (*command.readable, *(each for each in found.places if each not in command.packages))
    return replace(command, argv=(found.executable, *command.argv[1:]), readable=readable)


def _trusted(host: str) -> str:
    """Return ``host``, which is asked about itself outside of any sandbox, unless others could have put it there."""
    for path in (host, os.path.realpath(host)):
        for each in (Path(path), *Path(path).parents):
            if _others_can_change(each.stat()):
                raise JobError(
                    f"{host}: another user can replace this program ({each}), so it is not started outside of a "
                    f"sandbox; name a Python that belongs to you or to root"
                )
    return host


def _others_can_change(status: os.stat_result) -> bool:
    if status.st_uid not in (0, os.geteuid()):
        return True
    group = status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid())
    return bool(group or status.st_mode & stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX


def _refusal(program: str, host: str, shown: Iterable[str]) -> str:
    if _is_shown(host, shown):
        return f"{program}: {host} is not on the sandbox's own PATH; run it by that path, or set PATH"
    real = os.path.realpath(host)
    link = "" if real == host else f", a link to {real}"
    folders = " and ".join(dict.fromkeys(map(_folder, (host, real))))
    return (
        f"{program}: the program is {host} on this host{link}, which the code does not see; show {folders} "
        f"(filesystem.read, or --read), and run {host}"
    )


def _folder(path: str) -> str:
    """Return the folder to show for a program: the one around its ``bin``, if that holds no more than programs do."""
    inner = Path(path).parent
    outer = inner.parent
    return str(outer if inner.name in ("bin", "sbin") and outer not in (Path("/"), _home()) else inner)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # an account that no database knows
        return Path("/nonexistent")
