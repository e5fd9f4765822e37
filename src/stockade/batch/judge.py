"""Judge a program: run its cases one after another, each in a sandbox of its own."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Literal

from stockade.api import brokered
from stockade.api.asynchronous.runner import AsyncRunner
from stockade.api.job_arguments import with_placeholders
from stockade.api.runner import Runner
from stockade.backends.base import Backend
from stockade.batch import budget, compiling, judging, policies
from stockade.batch.budget import Amount
from stockade.batch.compiling import Compiled, Compiler
from stockade.batch.isolated.jobs import answer_job, longest_message, shared_source, tester_job
from stockade.batch.isolated.link import link
from stockade.batch.records import Case, CaseVerdict, Program, Test, Verdict, VerdictKind
from stockade.core.errors import JobError, ProtocolError, SetupError, StockadeError
from stockade.core.strict_json import dumps
from stockade.languages import registry as languages
from stockade.policy.guarantees import Guarantee
from stockade.policy.model import Policy
from stockade.runs.job import Job
from stockade.runs.secret import Secret

_PLANS_KEPT = 64
_FIRST_RETRY_SECONDS = 0.1  # before a failed sandbox is tried again; each further wait is four times as long


@dataclass(frozen=True)
class Settings:
    """The settings that programs are judged with."""

    policy: Policy
    backend: str | Backend | None = None
    trust: str | None = None
    interpreter: str | None = None
    """The interpreter for Python programs; the default is the one that runs the batch."""
    compilers: Mapping[str, str] = field(default_factory=dict)
    """Maps a language to its compiler, or to the folder of its installation; the default is the system's."""
    tests: Literal["isolated", "shared", "apart"] = "isolated"
    """Whether an answer's test runs in a sandbox of its own, or in the answer's interpreter."""
    stop_early: bool = False
    """Skip the cases after the first one that did not pass."""
    retries: int = 2
    """How often a program is started again if its sandbox failed."""
    kept: int = judging.KEPT
    """Bytes of each stream that a verdict keeps."""
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    """The secrets of every program, for the proxy of its run. Compilers and tests of their own get none."""
    on_ask: Callable[[str], bool] | None = None
    """Decides about names that the policy's network does not list."""

    def __post_init__(self) -> None:
        """Replace the old name ``apart`` by ``isolated``, so that both make the same batch."""
        if self.tests == "apart":
            object.__setattr__(self, "tests", "isolated")


_PRELOADED = ("base64", "collections", "heapq", "itertools", "json", "math", "random", "re", "string", "typing")
"""Modules that most programs of a batch import. A warm interpreter imports them ahead of the run."""


class _Preloading(AsyncRunner):
    """Runs programs of every language: warm with modules imported where that is possible, and fresh elsewhere."""

    async def _ready(self) -> Runner:
        runner = await super()._ready()
        runner._launcher.prefer(_PRELOADED)
        return runner


class _Box:
    """A policy with its plan, and the runner for it."""

    def __init__(self, policy: Policy, settings: Settings) -> None:
        planned = Runner(policy, backend=settings.backend, trust=settings.trust)
        self.plan = planned.plan
        self.run = _Preloading(policy, backend=planned.backend, trust=settings.trust)


@dataclass(frozen=True)
class _Boxes:
    """The sandboxes of all programs of one kind with the same limits: for the program, its compiler and its test."""

    base: Policy
    """The policy that the program itself asks for."""
    own: _Box
    compiler: _Box | None = None
    test: _Box | None = None
    needs: dict[Amount, Amount] = field(default_factory=dict)

    def need(self, capacity: Amount) -> Amount:
        """Return the most of ``capacity`` that a program may need; computed once for each capacity."""
        if capacity not in self.needs:
            self.needs[capacity] = self._need(capacity)
        return self.needs[capacity]

    def _need(self, capacity: Amount) -> Amount:
        need = policies.largest_need(self.own.plan, capacity)
        if self.compiler is not None:  # the compiler runs before the program, not beside it
            need = budget.sequential_need(need, policies.largest_need(self.compiler.plan, capacity))
        if self.test is not None:
            need = budget.concurrent_need(need, policies.largest_need(self.test.plan, capacity))
        return need


class Judge:
    """Judges programs; makes one plan for all programs with the same limits."""

    def __init__(self, settings: Settings) -> None:
        if settings.tests not in ("isolated", "shared"):
            raise JobError(f"tests = {settings.tests!r}: must be 'isolated' or 'shared'")
        if settings.retries < 0 or settings.kept < 0:
            raise JobError(f"retries = {settings.retries}, output kept = {settings.kept}: both must be at least 0")
        compiling.require(settings.compilers)
        brokered.check(settings.secrets, settings.on_ask, settings.policy)
        self._settings = settings
        self._boxes: OrderedDict[str, _Boxes] = OrderedDict()

    def need(self, program: Program, capacity: Amount) -> Amount:
        """Return the most that ``program`` may need.

        Raises ``JobError`` if the host has no interpreter or compiler for its language, and raises as ``Runner`` does
        if its policy cannot be held.
        """
        return self._boxes_for(program).need(capacity)

    def require(self, space: budget.Budget) -> None:
        """Raise ``JobError`` if not even one program with the batch's own limits fits, or raise as ``Runner`` does."""
        refusal = space.refusal(self.need(Program(id="any"), space.capacity))
        if refusal:
            raise JobError(f"each program {refusal}")

    async def judge(self, program: Program) -> Verdict:
        """Return the verdict. A fault of the sandbox is ``sandbox_failed``, and the program is started again."""
        for attempt in range(1, self._settings.retries + 2):
            cases, worth_another = await self._attempt(program)
            if not worth_another or attempt > self._settings.retries:
                break
            await asyncio.sleep(_FIRST_RETRY_SECONDS * 4 ** (attempt - 1))
        return judging.program_verdict(program, cases, attempt)

    async def _attempt(self, program: Program) -> tuple[list[CaseVerdict], bool]:
        """Return the verdicts on the cases, and whether a retry may help because the sandbox failed."""
        cases: list[CaseVerdict] = []
        try:
            compiled = await self._compiled(program)
            if isinstance(compiled, CaseVerdict):
                return [compiled], compiled.verdict is VerdictKind.SANDBOX_FAILED
            for case in program.cases or (Case("test"),):
                cases.append(await self._one(program, case, compiled))
                if cases[-1].verdict is VerdictKind.SANDBOX_FAILED:
                    return cases, True
                if self._settings.stop_early and cases[-1].verdict is not VerdictKind.PASSED:
                    break
        except (StockadeError, OSError) as error:
            reason = str(error) or type(error).__name__
            cases.append(CaseVerdict("test" if program.test else "", VerdictKind.SANDBOX_FAILED, reason=reason))
            return cases, isinstance(error, SetupError | ProtocolError | OSError)
        return cases, False

    async def _compiled(self, program: Program) -> Compiled | CaseVerdict | None:
        """Return the compiled program, or the verdict if that failed, or ``None`` for a language without compiler."""
        box, compiler = self._boxes_for(program).compiler, self._compiler(program)
        if box is None or compiler is None:
            return None
        result = await box.run.run_job(compiling.compile_job(compiler, program.source, program.files))
        made = compiling.program_of(compiler, result)
        return judging.not_compiled(compiler.tool, result, self._settings.kept) if made is None else made

    async def _one(self, program: Program, case: Case, compiled: Compiled | None) -> CaseVerdict:
        boxes = self._boxes_for(program)
        if compiled is not None:
            job = compiling.program_job(compiled, case.stdin, program.files, boxes.own.plan.policy.limits)
            result = await boxes.own.run.run_job(self._brokered(job))
            return judging.case_verdict(case, result, self._settings.kept)
        if program.test is not None:
            return await self._tested(boxes, program, program.test)
        result = await boxes.own.run.run(
            program.source,
            language=program.language,
            stdin=case.stdin,
            files=program.files,
            interpreter=self._interpreter(program),
            secrets=self._settings.secrets or None,
            on_ask=self._settings.on_ask,
        )
        return judging.case_verdict(case, result, self._settings.kept)

    async def _tested(self, boxes: _Boxes, program: Program, test: Test) -> CaseVerdict:
        kept, interpreter = self._settings.kept, self._interpreter(program)
        if boxes.test is None:
            token = token_hex(16)
            source = shared_source(test, token, interpreter)
            own = self._settings
            result = await boxes.own.run.run(
                source,
                files=program.files,
                interpreter=interpreter,
                secrets=own.secrets or None,
                on_ask=own.on_ask,
            )
            return judging.shared_verdict(result, token, kept, source=source)
        limits, most = boxes.base.limits, longest_message(boxes.base.limits.figure(Guarantee.MEMORY))
        printed = limits.figure(Guarantee.OUTPUT) if boxes.base.on_output == "kill" else None
        tester = (boxes.test.run, tester_job(test, interpreter, most=most))
        answerer = (boxes.own.run, self._brokered(answer_job(test, program.files, interpreter, most=most)))
        return judging.isolated_verdict(*await link(tester, answerer, printed), kept, source=test.code)

    def _brokered(self, job: Job) -> Job:
        """Return the job of a program itself, with its secrets."""
        secrets = self._settings.secrets
        environment = with_placeholders(dict(job.environment), secrets)
        return replace(job, environment=environment, secrets=secrets, on_ask=self._settings.on_ask)

    def _shares(self, test: Test) -> bool:
        return test.shared or self._settings.tests == "shared"

    def _interpreter(self, program: Program) -> str | None:
        return self._settings.interpreter if program.language.lower() in ("python", "py", "python3") else None

    def _compiler(self, program: Program) -> Compiler | None:
        return compiling.find(program.language, self._settings.compilers)

    def _boxes_for(self, program: Program) -> _Boxes:
        isolated = program.test is not None and not self._shares(program.test)
        key = dumps([program.profile, dict(program.limits), program.language, isolated], sort_keys=True)
        if key not in self._boxes:
            self._boxes[key] = self._planned(program, isolated=isolated)
            if len(self._boxes) > _PLANS_KEPT:
                self._boxes.popitem(last=False)
        self._boxes.move_to_end(key)
        return self._boxes[key]

    def _planned(self, program: Program, *, isolated: bool) -> _Boxes:
        policy = policies.policy_for(self._settings.policy, program.profile, program.limits)
        compiler = self._compiler(program)
        if compiler is not None:
            return _Boxes(
                base=policy,
                own=_Box(policies.policy_of_compiled(policy, compiler), self._settings),
                compiler=_Box(policies.policy_of_compiler(policy, compiler), self._settings),
            )
        languages.find(program.language).interpreter(self._interpreter(program))  # found here once, not at each run
        if not isolated:
            return _Boxes(base=policy, own=_Box(policy, self._settings))
        return _Boxes(
            base=policy,
            own=_Box(policies.policy_of_answer(policy), self._settings),
            test=_Box(policies.policy_of_test(policy), self._settings),
        )
