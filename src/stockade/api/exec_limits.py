"""The limits of one call in a living sandbox: the policy's, lowered by the arguments of the call."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stockade.api.job_arguments import job_from_command
from stockade.api.launcher import check_command
from stockade.api.options import check_names
from stockade.backends.shared.living import plan_of_execs
from stockade.core.errors import JobError
from stockade.core.loading import loading
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from stockade.core.launch import Watch
    from stockade.planning.plan import Plan
    from stockade.runs.job import Job

_FIELDS = {"timeout": Guarantee.WALL_TIME, "cpu_time": Guarantee.CPU_TIME, "output": Guarantee.OUTPUT}


class ExecLimits:
    """Makes the plans of calls in one sandbox. Equal calls share a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan_of_execs(plan)
        self._whole = plan
        self._lowered = lru_cache(maxsize=64)(self._with)

    def of_sandbox(self, lifetime: float) -> Plan:
        """Return the plan of the sandbox itself, whose wall time is its lifetime."""
        unlimited = dict.fromkeys(("limits.cpu_time", "limits.output"), "unlimited")
        return _with_limits(self._whole, {"limits.wall_time": lifetime, **unlimited})

    def call(self, argv: Sequence[str], environment: Any, stdin: Any, **limits: Any) -> tuple[Job, Plan]:
        """Return the job and the plan of a call."""
        job, plan = job_from_command(argv, environment=environment, stdin=stdin), self.of_call(**limits)
        check_command(plan, job.argv)
        return job, plan

    def of_call(self, **arguments: Any) -> Plan:
        """Return the plan of a call. Raises ``JobError`` if an argument would raise a limit of the policy."""
        check_names(arguments, tuple(_FIELDS))
        given = tuple((name, value) for name, value in arguments.items() if value is not None)
        return self._lowered(given) if given else self._plan

    def of_process(self, *, timeout: float | None, cpu_time: float | None) -> Plan:
        """Return the plan of a process that goes on: its streams are live, and the sandbox's lifetime bounds it."""
        lifted = (("output", "unlimited"), ("timeout", "unlimited" if timeout is None else timeout))
        return self._lowered((*lifted, *((("cpu_time", cpu_time),) if cpu_time is not None else ())), live=True)

    def _with(self, given: tuple[tuple[str, Any], ...], *, live: bool = False) -> Plan:
        changed = {f"limits.{_FIELDS[name].value}": value for name, value in given}
        made = _with_limits(self._plan, changed)
        for name, value in given:
            most = self._plan.policy.limits.figure(_FIELDS[name])
            figure = made.policy.limits.figure(_FIELDS[name])
            may_rise = live and name != "cpu_time"
            if most is not None and not may_rise and (figure is None or figure > most):
                raise JobError(
                    f"{name} = {value!r}: the policy of the sandbox allows {most:g}, and a call can only lower that; "
                    f"make the sandbox with a higher limit"
                )
        return made

    @staticmethod
    def watch(watch: Watch, plan: Plan) -> Watch:
        """Return ``watch`` with the limits of ``plan`` for one call."""
        figure = plan.policy.limits.figure
        output = figure(Guarantee.OUTPUT)
        return watch.adding(
            wall_seconds=figure(Guarantee.WALL_TIME),
            cpu_seconds=figure(Guarantee.CPU_TIME),
            output_bytes=None if output is None else int(output),
        )


def _with_limits(plan: Plan, fields: dict[str, Any]) -> Plan:
    with loading:
        from stockade.policy.merge import nested
        from stockade.policy.resolve import with_layers

    layers = {f"argument {field}": nested(field, value) for field, value in fields.items()}
    return replace(plan, policy=with_layers(plan.policy, layers))


def checked_seconds(name: str, value: float) -> float:
    """Return a number of seconds. Raises ``JobError`` unless it is positive and finite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise JobError(f"{name} = {value!r}: a positive number of seconds")
    return float(value)


def checked_folder(cwd: str | os.PathLike[str] | None) -> str:
    """Return the text of a folder, empty without one. Raises ``JobError`` for a NUL in it."""
    folder = "" if cwd is None else os.fspath(cwd)
    if "\0" in folder:
        raise JobError(f"cwd = {folder!r}: a path has no NUL in it")
    return folder
