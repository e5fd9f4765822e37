"""The bubblewrap backend: the system's ``bwrap`` makes the walls, stockade's warden holds the limits.

For hosts where only bwrap may make user namespaces. The command line is a pure function of plan and job. How the guest
ended is read from bwrap's status channel: its own exit status says neither whether the set-up failed nor how.
"""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stockade import _engines, _filter
from stockade._errors import JobError
from stockade._guarantees import Enforcement, Guarantee, Isolation
from stockade._launch import Launch, encode_steps
from stockade.backends.base import Availability, require
from stockade.backends.bubblewrap_arguments import STATUS, Arguments
from stockade.backends.bubblewrap_capabilities import capabilities
from stockade.backends.limits import filters_syscalls, groups, watch
from stockade.backends.surroundings import check_paths, check_reachable, environment
from stockade.languages.base import JOB_FOLDER

if TYPE_CHECKING:
    from stockade._facts import HostFacts
    from stockade._job import Command, Job
    from stockade._plan import Plan
    from stockade._policy import Policy

_BASE = encode_steps((("session",), ("status", STATUS)))
_TRIAL = ("--unshare-user", "--unshare-pid", "--unshare-net", "--uid", "1000", "--gid", "1000", "--die-with-parent",
          "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "/bin/sh", "-c", "exit 0")  # fmt: skip
_NEEDED = ("--json-status-fd", "--size", "--perms", "--seccomp")
_ENGINE_TASKS = 2  # bwrap outside, and its own first process inside
_LIMITS_BY = ("/usr/bin/prlimit", "/bin/prlimit")
_NOT_EXECUTED = (126, 127)


@dataclass(frozen=True)
class Bubblewrap:
    """``arguments`` are more options for bwrap, before the command: they may open what the policy closes."""

    arguments: tuple[str, ...] = ()
    engine: _engines.Engine | None = None
    """What to go by instead of looking."""

    name = "bubblewrap"
    isolation = Isolation.NAMESPACES

    def availability(self, facts: HostFacts) -> Availability:  # noqa: ARG002
        """Return whether bwrap is there, new enough, and works."""
        engine = self._engine()
        if not engine.path:
            return Availability(usable=False, reason=engine.trouble, remedy="apt install bubblewrap")
        lacking = [option for option in _NEEDED if engine.options and option not in engine.options]
        if lacking:
            version = ".".join(map(str, engine.version))
            return Availability(
                usable=False,
                reason=f"{engine.path} {version} has no {', '.join(lacking)}",
                remedy="install bubblewrap 0.6 or newer",
            )
        if engine.trouble:
            return Availability(usable=False, reason=engine.trouble, remedy="see: stockade doctor")
        if _prlimit() is None:
            return Availability(usable=False, reason="prlimit is not installed", remedy="apt install util-linux")
        return Availability(usable=True)

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:
        """Return what holds each guarantee here."""
        return capabilities(facts, policy, self._engine(), self.arguments)

    @contextmanager
    def prepare(self, plan: Plan, job: Job, spell: Callable[[str], Command]) -> Iterator[Launch]:
        """Yield the launch. Nothing is taken for it."""
        require(self, plan.facts)
        check_paths(plan.policy, plan.facts)
        if not plan.policy.security.read_only_root:
            raise JobError(f"security.read_only_root: the {self.name} backend cannot bound a writable root")
        if plan.policy.security.explain_denials:
            raise JobError(f"security.explain_denials: {self.name} hands no listener of its filter on")
        yield launch(plan, job, spell(JOB_FOLDER), self._engine(), self.arguments)

    def translate(self, report: Mapping[str, Any], stderr: bytes) -> Mapping[str, Any]:
        """Return the report with the guest's own end instead of bwrap's."""
        return translate(report, stderr)

    def _engine(self) -> _engines.Engine:
        return self.engine or _engines.look("bwrap", _TRIAL)


def launch(plan: Plan, job: Job, command: Command, engine: _engines.Engine, more: Sequence[str]) -> Launch:
    """Return the launch of ``command``: bwrap with its arguments, and what it reads from descriptors."""
    policy, facts = plan.policy, plan.facts
    if facts.uid == 0:
        policy_paths = (*policy.filesystem.read, *policy.filesystem.write)
        check_reachable((*command.argv[:1], *command.readable, *policy_paths, *map(os.path.abspath, job.inputs)))
    arguments = Arguments(plan, job, command, disable_userns="--disable-userns" in engine.options)
    if filters_syscalls(facts):
        arguments.filter(_filter.program(plan))
    return Launch(
        argv=(engine.path, *arguments.words, *more, "--", _prlimit() or "", *arguments.limits(), *command.argv),
        environment=environment(policy, job, command),
        base=_BASE,
        steps=(*arguments.data, ("become", not _is_setuid(engine.path))),
        groups=groups(policy, _ENGINE_TASKS),
        watch=watch(policy, facts, _ENGINE_TASKS),
        bare=True,
        host_uid=policy.security.host_uid if facts.uid == 0 else None,
        channel=command.channel,
    )


def translate(report: Mapping[str, Any], stderr: bytes) -> dict[str, Any]:
    """Work bwrap's status channel into the warden's report: a pure function.

    bwrap writes ``exit-code`` only when the command was executed and has ended. It tells of a death by signal as a
    shell does, by 128 and the signal's number, so a guest that exits with such a number is taken for dead by it.
    """
    told = dict(report)
    if report["cause"] is not None or report["failure"] or report["status"] is None or report["oom_kills"]:
        return told
    code = _exit_code(report["engine"])
    if code is None:
        said = stderr.decode("utf-8", "replace").strip()[-300:]
        told["failure"] = {"kind": "setup", "message": said or "bwrap ended without a word"}
    elif code in _NOT_EXECUTED and stderr.startswith(b"prlimit: failed to execute ") and stderr.count(b"\n") == 1:
        words = stderr.decode("utf-8", "replace").strip().removeprefix("prlimit: failed to execute ")
        told["failure"] = {"kind": "exec", "message": words.replace("No such file or directory", "command not found")}
        told["status"] = code << 8
    else:
        number = code - 128
        told["status"] = number if number in signal.valid_signals() else code << 8
    return told


def _exit_code(said: bytes) -> int | None:
    for line in said.splitlines():
        try:
            code = json.loads(line).get("exit-code")
        except (ValueError, AttributeError):
            continue
        if isinstance(code, int):
            return code
    return None


def _prlimit() -> str | None:
    return next((path for path in _LIMITS_BY if os.access(path, os.X_OK)), None)


def _is_setuid(path: str) -> bool:
    return bool(Path(path).stat().st_mode & stat.S_ISUID)
