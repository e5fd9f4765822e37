"""Split a launch in two: the steps of an instance, which lives for many execs, and those of each exec. Pure functions.

A run is an instance with one exec, so a backend makes its launch as for a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stockade.core.frozen import FrozenDict
from stockade.core.launch import Groups, Launch, decode_steps, encode_steps
from stockade.policy.guarantees import Enforcement, Guarantee, Strength

if TYPE_CHECKING:
    from stockade.core.launch import Step
    from stockade.planning.plan import Plan

_OF_EXECS = ("identity", "filter", "listening_filter", "limits")
_OF_CONNECTORS = ("identity", "limits")
_SHARED = (Guarantee.MEMORY, Guarantee.SWAP, Guarantee.PROCESSES, Guarantee.DISK, Guarantee.CPU_RATE)
_ALL_EXECS = "of all execs of the sandbox together"
_LEFT = "when the sandbox ends: until then, processes that an exec leaves behind belong to the sandbox"
_SAMPLED = (
    "without a control group, the warden samples the exec's processes; children that nobody waited for can escape"
)


def instance(made: Launch, name: str, *, max_lifetime: float, idle_timeout: float | None) -> Launch:
    """Return the launch of a living instance called ``name``, from the launch of a run in it."""
    watch = made.watch.adding(
        wall_seconds=max_lifetime,
        cpu_seconds=None,
        output_bytes=None,
        kill_on_output=False,
        live=True,
        idle_seconds=idle_timeout,
    )
    return made.adding(
        base=encode_steps(tuple(_of_instance(decode_steps(made.base)))),
        steps=tuple(_of_instance(made.steps)),
        watch=watch,
        argv=(),
        environment={},
        sandbox=name,
        lives=True,
        stdin=False,
        channel=False,
    )


def _of_instance(steps: tuple[Step, ...]) -> list[Step]:
    """Return the steps that the init takes: all but those of the guest itself, and a namespace for its identity."""
    kept = [step for step in steps if step[0] not in (*_OF_EXECS, "chdir")]
    identity = next((step for step in steps if step[0] == "identity"), None)
    if identity is not None:  # Landlock comes behind it, and confines the init with all execs
        at = next((at for at, step in enumerate(kept) if step[0] == "landlock"), len(kept))
        kept.insert(at, ("users", *identity[1:]))
    return kept


def an_exec(made: Launch, name: str, argv: tuple[str, ...], environment: Mapping[str, str], **how: Any) -> Launch:
    """Return the launch of ``argv`` in the living instance called ``name``. ``how`` are further fields of it."""
    steps = [step for step in (*decode_steps(made.base), *made.steps) if step[0] in _OF_EXECS]
    if how.get("port"):  # no program, so no filter for one
        steps = [step for step in steps if step[0] in _OF_CONNECTORS]
    if how.get("stdio") is not None and how["stdio"].rows:
        steps.insert(1, ("own_terminal",))  # behind ``identity``, which makes a session
    return Launch(
        argv=argv,
        environment={**made.environment, **environment},
        steps=tuple(steps),
        groups=Groups(memory=made.groups.memory),
        watch=made.watch.adding(sampled_memory=None, soft_memory=None, own_network=False),
        errnos=made.errnos,
        sandbox=name,
        **how,
    )


def first_folder(made: Launch) -> str:
    """Return the folder in which a run of the launch starts."""
    steps = (*decode_steps(made.base), *made.steps)
    return str(next(step[1] for step in steps if step[0] == "chdir"))


def plan_of_execs(plan: Plan) -> Plan:
    """Return the plan of an exec: the same protections, of which some are the sandbox's."""
    changed = {}
    for guarantee in _SHARED:
        held = plan.enforcement[guarantee]
        if held.strength is not Strength.ABSENT:
            changed[guarantee] = _noting(held, _ALL_EXECS)
    changed[Guarantee.NO_SURVIVORS] = _noting(plan.enforcement[Guarantee.NO_SURVIVORS], _LEFT)
    if not plan.facts.counts_cpu and plan.policy.asks(Guarantee.CPU_TIME):
        changed[Guarantee.CPU_TIME] = _noting(plan.enforcement[Guarantee.CPU_TIME], _SAMPLED)
    return replace(plan, enforcement=FrozenDict({**plan.enforcement, **changed}))


def _noting(held: Enforcement, note: str) -> Enforcement:
    return replace(held, note="; ".join(filter(None, (held.note, note))))
