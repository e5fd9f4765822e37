"""From a job to a conversation with the warden about it. What is the same for jobs that differ in their source alone is
worked out once: most callers run one program after another, and nothing of theirs changes but that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from stockade import _commands, _costs, _workspace
from stockade._errors import JobError
from stockade._job import Command, Job
from stockade._launch import Launch
from stockade._plan import Plan, plan_for_job
from stockade._result import Result
from stockade.backends.base import Backend
from stockade.client import wardens
from stockade.client.conversation import Conversation
from stockade.client.outbox import Outbox
from stockade.languages import registry as languages

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Opener:
    """Opens conversations about jobs under one plan. Can be used by several threads at a time."""

    def __init__(self, backend: Backend, plan: Plan, *, caller: int = 0, warmth: Mapping[str, Any] = NOTHING) -> None:
        """``warmth`` are the fields of each job of source text that say what its interpreter is to be like."""
        self.caller = caller
        """Whose runs they are, where runs have to wait: callers take turns."""
        self._backend, self._plan = backend, plan
        self._warmth = warmth
        # An engine in between has its say about the status; see ``SpeaksForItself``.
        self._translate: Any = getattr(backend, "translate", None)
        self._repeats: Callable[[Plan, Job], bool] = getattr(backend, "repeats", lambda *_: False)
        self._form: Form | None = None

    @contextmanager
    def open(self, job: Job, **how: Any) -> Iterator[tuple[Outbox, wardens.Line]]:
        """Open a line and a conversation about ``job``; ``how`` is for ``Conversation``. Leaving ends the run."""
        # The line first: the warden wakes up while the launch is put together.
        with wardens.current().line() as line:
            form = self._form
            if form is not None and form.fits(job):
                talk = self._talk(line, form.launch(job.source), form.plan, job, how, said=form.said)
                yield Outbox(talk, line.sock), line
            else:
                plan = _for_job(self._plan, job)
                warmed = replace(job, **self._warmth) if self._warmth and job.source is not None else job
                with prepared(self._backend, plan, warmed) as launch:
                    talk = self._talk(line, launch, plan, job, how)
                    if not how and self._repeats(plan, warmed):
                        self._form = Form.of(job, plan, launch, talk.said)
                    yield Outbox(talk, line.sock), line
            if talk.result is not None and talk.result.ok:
                _costs.note(self._backend.name, talk.seconds)

    def _talk(
        self, line: wardens.Line, launch: Launch, plan: Plan, job: Job, how: dict[str, Any], **more: Any
    ) -> Conversation:
        talk = Conversation(
            launch,
            plan,
            self._translate,
            finish=_workspace.finished,
            before=line.said,
            caller=self.caller,
            silent=job.stdin is None,
            **how,
            **more,
        )
        line.said = talk.said
        return talk


class Form:
    """A launch without its source."""

    def __init__(self, job: Job, plan: Plan, launch: Launch, said: Mapping[str, Any], place: int) -> None:
        """``place`` is the step of ``launch`` that lays the source of ``job`` down."""
        self.plan = plan
        self.said = said
        self._shape = _shape(job)
        self._blank = launch.adding(steps=())
        before, step, after = launch.steps[:place], launch.steps[place], launch.steps[place + 1 :]
        self._before, self._name, self._after = before, step[:-1], after

    @classmethod
    def of(cls, job: Job, plan: Plan, launch: Launch, said: Mapping[str, Any]) -> Form | None:
        """Return the form of this launch; ``None`` where its source is not one of its steps."""
        places = [at for at, step in enumerate(launch.steps) if step[0] == "job_file" and step[-1] is job.source]
        return cls(job, plan, launch, said, places[0]) if len(places) == 1 else None

    def fits(self, job: Job) -> bool:
        """Return whether ``job`` differs in its source alone."""
        return job.source is not None and _shape(job) == self._shape

    def launch(self, source: bytes | None) -> Launch:
        """Return the launch of ``source``."""
        return self._blank.adding(steps=(*self._before, (*self._name, source), *self._after))


def _shape(job: Job) -> dict[str, Any]:
    """Return all that a launch depends on, but for the source. What it holds may be the caller's to change: copied."""
    return vars(job) | {
        "source": None,
        "stdin": job.stdin is None,
        "files": dict(job.files),
        "environment": dict(job.environment),
    }


@contextmanager
def conversing(backend: Backend, plan: Plan, job: Job, **how: Any) -> Iterator[tuple[Outbox, wardens.Line]]:
    """Open a line and a conversation about ``job`` alone; see ``Opener``."""
    with Opener(backend, plan).open(job, **how) as (outbox, line):
        yield outbox, line


@contextmanager
def prepared(backend: Backend, plan: Plan, job: Job) -> Iterator[Launch]:
    """Yield the launch of ``job``; leaving the context gives back what was taken for it."""
    refused = _commands.refusal(job.argv, plan.policy.commands.allow, plan.policy.commands.refuse) if job.argv else ""
    if refused:
        raise JobError(refused)

    def spell(folder: str) -> Command:
        if job.source is None:
            return Command(argv=job.argv)
        return languages.find(job.language).command(job, plan, folder)

    job = _workspace.looked_up(plan, job)
    if not getattr(backend, "keeps_workspaces", False):
        _workspace.refuse_all(plan, job)
    with backend.prepare(plan, job, spell) as launch:
        if job.warm and not launch.warm:
            raise JobError(f"warm: no interpreter is kept warm by the backend {backend.name}, or for {job.language}")
        yield _workspace.ordered(launch, job, plan.policy)


def concluded(outbox: Outbox) -> Result:
    """Return the verdict of a conversation that was held to its end."""
    assert outbox.talk.result is not None
    return outbox.talk.result


def _for_job(plan: Plan, job: Job) -> Plan:
    if job.source is None:
        return plan_for_job(plan, "a command", counts=False)
    language = languages.find(job.language)
    return plan_for_job(plan, f"{language.name} source", counts=language.counts_operations)
