"""The confined run: an attack in a sandbox, judged by the verdict and by observations from outside."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stockade.api.job_arguments import job_from_command, job_from_source, with_placeholders
from stockade.api.runner import Runner
from stockade.attacks import brought, build, corpus, outside, policies, refusals, warm, without_walls
from stockade.attacks.half import Half
from stockade.attacks.world import World, staged
from stockade.client import warden_process
from stockade.core.errors import JobError
from stockade.policy.guarantees import Strength
from stockade.runs.result import Outcome, Result
from stockade.runs.secret import Secret

if TYPE_CHECKING:
    from stockade.attacks.corpus import Attack
    from stockade.backends.base import Backend
    from stockade.planning.plan import Plan
    from stockade.policy.guarantees import Enforcement
    from stockade.runs.job import Job

KNOWN = ("native", "bubblewrap", "oci", "landlock", "process")
"""Backends whose refusals the headers know. Under any other backend, every end but a success is a refusal."""
NOT_BEGUN = "refused before it began"
_SHOWN = 800
_ALL_WORKSPACES = "native"
"""The backend that supports every kind of workspace. Others can refuse some before a run begins."""


def run(attack: Attack, backend: Backend, base: Mapping[str, Any] | None = None, *, is_warm: bool = False) -> Half:
    """Run the attack on ``backend`` and compare the result with the expected refusal.

    The attack's policy overrides ``base``. ``is_warm`` requires a warm interpreter. Raises ``StageError`` if a stage
    cannot be set up, and ``StockadeError`` if the run cannot start.
    """
    with staged(attack.stage, beside=backend) as world:
        if world.no_walls:
            return without_walls.run(backend, _job(attack, world, backend, is_warm=is_warm))
        policy = policies.attacked(attack.policy, base, world.read, world.write, world.filesystem)
        box = Runner(policy, backend=backend)
        try:
            result, seconds = _timed(world, box, _job(attack, world, backend, is_warm=is_warm))
        except JobError as error:
            if not (world.filesystem or attack.artifacts) or backend.name == _ALL_WORKSPACES:
                raise
            return Half(good=True, what=f"{NOT_BEGUN}: {error}")
        return _judged(attack, world, box, result, seconds, names=[warm.NAME] if is_warm else [])


def mechanism(attack: Attack, plan: Plan) -> Enforcement | None:
    """Return the enforcement of the guarantee under attack, or ``None`` if the attack is on the answer itself."""
    return plan.enforcement.get(attack.guarantee)  # type: ignore[call-overload, no-any-return]


def _timed(world: World, box: Runner, job: Job) -> tuple[Result, float]:
    if world.fresh_warden:
        outside.stop_warden()
    try:
        warden_process.current()
        begin = time.monotonic()
        result = box.run_job(job)
        return result, time.monotonic() - begin
    finally:
        if world.fresh_warden:
            outside.stop_warden()


def _job(attack: Attack, world: World, backend: Backend, *, is_warm: bool) -> Job:
    job = replace(_program(attack, world, backend, is_warm=is_warm), artifacts=attack.artifacts)
    if world.secrets:
        secrets = {name: Secret(world.secret, hosts=hosts) for name, hosts in world.secrets.items()}
        job = replace(job, secrets=secrets, environment=with_placeholders(dict(job.environment), secrets))
    return replace(job, warm=is_warm) if job.source is not None else job


def _program(attack: Attack, world: World, backend: Backend, *, is_warm: bool) -> Job:
    environment = {**world.environment, **attack.confined}
    if attack.language == "c":
        program = build.program(attack.path.read_text(encoding="utf-8"))
        return job_from_command(policies.executing(backend), files={"attack": program}, environment=environment)
    source = attack.path.read_bytes()
    # Job files are not written into a folder of the host, so a stage shows the kit in another folder.
    kit = None if world.filesystem else attack.kit
    files = {kit.name: kit.read_bytes()} if kit is not None else {}
    if attack.language in {"ruby", "javascript"} and not is_warm:
        command = {"ruby": "ruby", "javascript": "node"}[attack.language]
        environment |= {"OPENSSL_CONF": "/dev/null"}  # Node reads the system's own file, which the sandbox may not show
        name = f"program{attack.path.suffix}"
        return job_from_command([command, name], files={**files, name: source}, environment=environment)
    own = policies.interpreter(backend) if attack.language == "python" else None
    return job_from_source(source, language=attack.language, files=files, environment=environment, interpreter=own)


def _judged(attack: Attack, world: World, box: Runner, result: Result, seconds: float, *, names: Sequence[str]) -> Half:
    held, backend = mechanism(attack, box.plan), box.backend
    expected = attack.refusal_under(held.mechanism if held else "", *names, backend.name, backend.isolation.value)
    met, unlike = refusals.met(expected, result, seconds, attack)
    came_out = b"".join(result.artifacts.values()).decode("utf-8", "replace")
    shown = f"{result.stdout} {result.stderr} {result.value_repr} {result.error} {came_out}"
    world.seen |= brought.questions({path: len(content) for path, content in result.artifacts.items()})
    world.seen["blocked"] = lambda: seconds > policies.WALL_SECONDS / 4
    seen = _seen(attack, world, result, shown)
    succeeded = bool(seen) or (not met and refusals.has_succeeded(result, seconds, attack))
    if met.startswith("admitted") or (succeeded and _is_admitted(held, attack, backend)):
        return Half(good=True, what="not held, and the receipt says so", succeeded=True, admitted=True)
    if not succeeded and unlike and backend.name not in KNOWN and result.outcome is not Outcome.SANDBOX_FAILED:
        unlike = ""
    if seen:
        unlike = f"seen from outside: {', '.join(seen)}"
    if unlike or succeeded:
        what = f"expected {expected!r}: {unlike}; {result.summary()}; {shown[-_SHOWN:]}"
        return Half(good=False, what=what, succeeded=succeeded)
    return Half(good=True, what=result.stdout.strip()[-200:] or result.summary())


def _seen(attack: Attack, world: World, result: Result, shown: str) -> list[str]:
    """Return the observations from outside that came true and must not."""
    world.seen["secret"] = lambda: world.secret in shown
    world.seen["victim_killed"] = lambda: result.exit_code == corpus.SUCCEEDED
    always = [name for name in ("survivors", "secret") if name in world.seen]
    return [name for name in dict.fromkeys((*attack.observe, *always)) if world.seen[name]()]


def _is_admitted(held: Enforcement | None, attack: Attack, backend: Backend) -> bool:
    """Return whether the receipt says that the attack is not held: by strength, or in the guarantee's note."""
    if held is None:
        return False
    text = attack.admitted.get(backend.name)
    return held.strength is Strength.ABSENT or (text is not None and text in held.note)
