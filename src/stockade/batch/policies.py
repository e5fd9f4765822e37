"""The policies of a program, its test and its compiler: the batch's own policy, with the program's own limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stockade.batch.budget import Amount
from stockade.batch.compiling import COMPILE_LIMITS, Compiler
from stockade.planning.plan import Plan
from stockade.policy.guarantees import Guarantee, Strength
from stockade.policy.model import Policy

BATCH_LIMITS: Mapping[str, Any] = {"cpu_time": 10.0, "wall_time": 20.0, "output": 1 << 20}
"""Limits of a batch's default policy that differ from the default profile: a batch must not wait for one program."""

_TEST_LIMITS: Mapping[str, Any] = {"processes": 1, "output": "unlimited", "disk": 4 << 20}
_EXTRA_SECONDS = 10.0  # seconds that a test may take longer than its answer
_OWN_TASKS = 16  # of a sandbox: init, spawner, a process that is being made, and the interpreter's own threads
_OWN_DESCRIPTORS = 20  # of a sandbox, in the warden or here: four pipes, sockets, control groups, files to write


def default() -> Policy:
    """Return the default policy of a batch."""
    return Policy(limits=BATCH_LIMITS, on_output="kill")


def policy_for(base: Policy, profile: str | None, limits: Mapping[str, Any]) -> Policy:
    """Return the policy of a program that names a ``profile`` and ``limits`` of its own. Raises ``PolicyError``.

    Only the limits of a profile count. A program's record must not decide what the program may reach.
    """
    if profile is None and not limits:
        return base
    data = base.model_dump()
    named = Policy.profile(profile).model_dump()["limits"] if profile is not None else {}
    return Policy.parse({**data, "limits": {**data["limits"], **named, **limits}})


def policy_of_test(base: Policy) -> Policy:
    """Return the policy of the sandbox that tests an answer running under ``base``. The test outlives the answer."""
    data = base.model_dump()
    wall = base.limits.figure(Guarantee.WALL_TIME)
    patient = "unlimited" if wall is None else wall + _EXTRA_SECONDS
    limits = {**data["limits"], **_TEST_LIMITS, "wall_time": patient, "cpu_time": patient, "cpu_rate": "unlimited"}
    return Policy.parse({**data, "limits": limits, "on_output": "truncate"})


def policy_of_answer(base: Policy) -> Policy:
    """Return the policy of an answer that is tested from another sandbox: its standard output carries replies."""
    data = base.model_dump()
    return Policy.parse({**data, "limits": {**data["limits"], "output": "unlimited"}, "on_output": "truncate"})


def policy_of_compiled(base: Policy, compiler: Compiler) -> Policy:
    """Return the policy of a program that ``compiler`` made and that runs under ``base``."""
    data = base.model_dump()
    processes = base.limits.figure(Guarantee.PROCESSES)
    more = {} if processes is None else {"processes": int(processes) + compiler.threads}
    return Policy.parse({**_showing_toolchain(data, compiler), "limits": {**data["limits"], **more}})


def policy_of_compiler(base: Policy, compiler: Compiler) -> Policy:
    """Return the policy of the sandbox that compiles a program which runs under ``base``."""
    data = base.model_dump()
    limits = {**data["limits"], **COMPILE_LIMITS}
    return Policy.parse({**_showing_toolchain(data, compiler), "limits": limits, "on_output": "kill"})


def _showing_toolchain(data: dict[str, Any], compiler: Compiler) -> dict[str, Any]:
    shown = data["filesystem"]
    return {**data, "filesystem": {**shown, "read": [*shown["read"], *compiler.reads()]}}


def largest_need(plan: Plan, capacity: Amount) -> Amount:
    """Return the most that a run may need. A resource without a limit counts as all of ``capacity``."""
    limits = plan.policy.limits
    memory, disk = limits.figure(Guarantee.MEMORY), limits.figure(Guarantee.DISK)
    tasks = limits.figure(Guarantee.PROCESSES)
    if not plan.enforcement[Guarantee.MEMORY].strength.holds(Strength.KERNEL) and memory and disk:
        memory += disk  # without a memory group, files in the tmpfs are not counted as memory
    return Amount(
        jobs=1,
        memory=capacity.memory if memory is None else int(memory),
        tasks=capacity.tasks if tasks is None else int(tasks) + _OWN_TASKS,
        descriptors=_OWN_DESCRIPTORS,
    )
