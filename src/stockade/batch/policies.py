"""The policy of a program, and of its test: the batch's own, with what the program says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stockade.batch.budget import Amount
from stockade.batch.compiling import COMPILE_LIMITS, Compiler
from stockade.planning.plan import Plan
from stockade.policy.guarantees import Guarantee, Strength
from stockade.policy.model import Policy

BATCH_LIMITS: Mapping[str, Any] = {"cpu_time": 10.0, "wall_time": 20.0, "output": 1 << 20}
"""Where a batch's default policy differs from the default profile: nobody waits for one program of many."""

_TEST_LIMITS: Mapping[str, Any] = {"processes": 1, "output": "unlimited", "disk": 4 << 20}
_PATIENCE = 10.0  # seconds that a test may take beyond its answer
_OWN_TASKS = 16  # of a sandbox: its init, the nursery, one that is on its way; what an interpreter needs for itself
_OWN_DESCRIPTORS = 20  # of a sandbox, in the warden or here: four pipes, sockets, groups, files to be laid


def default() -> Policy:
    """Return the policy of a batch that names none."""
    return Policy(limits=BATCH_LIMITS, on_output="kill")


def policy_for(base: Policy, profile: str | None, limits: Mapping[str, Any]) -> Policy:
    """Return the policy of a program that names a ``profile`` and ``limits`` of its own. Raises ``PolicyError``.

    Of a profile the limits count and nothing else: what a program may reach is not for its record to say.
    """
    if profile is None and not limits:
        return base
    data = base.model_dump()
    named = Policy.profile(profile).model_dump()["limits"] if profile is not None else {}
    return Policy.parse({**data, "limits": {**data["limits"], **named, **limits}})


def policy_of_test(base: Policy) -> Policy:
    """Return the policy of the sandbox that tests an answer which runs under ``base``: it outlives the answer."""
    data = base.model_dump()
    wall = base.limits.figure(Guarantee.WALL_TIME)
    patient = "unlimited" if wall is None else wall + _PATIENCE
    limits = {**data["limits"], **_TEST_LIMITS, "wall_time": patient, "cpu_time": patient, "cpu_rate": "unlimited"}
    return Policy.parse({**data, "limits": limits, "on_output": "truncate"})


def policy_of_answer(base: Policy) -> Policy:
    """Return the policy of an answer that is tested from another sandbox: its standard output carries replies."""
    data = base.model_dump()
    return Policy.parse({**data, "limits": {**data["limits"], "output": "unlimited"}, "on_output": "truncate"})


def policy_of_compiled(base: Policy, compiler: Compiler) -> Policy:
    """Return the policy of a program that ``compiler`` has made and that runs under ``base``."""
    data = base.model_dump()
    processes = base.limits.figure(Guarantee.PROCESSES)
    more = {} if processes is None else {"processes": int(processes) + compiler.threads}
    return Policy.parse({**_seeing(data, compiler), "limits": {**data["limits"], **more}})


def policy_of_compiler(base: Policy, compiler: Compiler) -> Policy:
    """Return the policy of the sandbox that compiles a program which runs under ``base``."""
    data = base.model_dump()
    limits = {**data["limits"], **COMPILE_LIMITS}
    return Policy.parse({**_seeing(data, compiler), "limits": limits, "on_output": "kill"})


def _seeing(data: dict[str, Any], compiler: Compiler) -> dict[str, Any]:
    shown = data["filesystem"]
    return {**data, "filesystem": {**shown, "read": [*shown["read"], *compiler.reads()]}}


def most(plan: Plan, capacity: Amount) -> Amount:
    """Return what a run may need at most. What a policy does not limit counts as all there is."""
    limits = plan.policy.limits
    memory, disk = limits.figure(Guarantee.MEMORY), limits.figure(Guarantee.DISK)
    tasks = limits.figure(Guarantee.PROCESSES)
    if not plan.enforcement[Guarantee.MEMORY].strength.holds(Strength.KERNEL) and memory and disk:
        memory += disk  # without a group for it, files in memory are not counted in
    return Amount(
        jobs=1,
        memory=capacity.memory if memory is None else int(memory),
        tasks=capacity.tasks if tasks is None else int(tasks) + _OWN_TASKS,
        descriptors=_OWN_DESCRIPTORS,
    )
