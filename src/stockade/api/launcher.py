"""From a job to a conversation with the warden about it. What is the same for jobs that differ in their source alone is
worked out once: most callers run one program after another, and nothing of theirs changes but that."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from stockade.api import start_costs, workspace
from stockade.api.job_arguments import encoded
from stockade.backends.base import Backend
from stockade.client import warden_process
from stockade.client.connection import Line
from stockade.client.exchange import Conversation, introduction, repetition
from stockade.client.run_slots import Place
from stockade.client.send_queue import Outbox
from stockade.client.sending import send_now
from stockade.core import trace
from stockade.core.errors import JobError
from stockade.core.launch import Launch
from stockade.languages import registry as languages
from stockade.planning.plan import Plan, plan_for_job
from stockade.policy import commands
from stockade.runs.job import Command, Job
from stockade.runs.result import Result

Opened = tuple[Outbox, Line]
NOTHING: Mapping[str, Any] = MappingProxyType({})
_LASTING = ("language", "interpreter")
"""Options whose text stands for the same tomorrow: an archive's file may be another by then."""


class Opener:
    """Opens conversations about jobs under one plan. Can be used by several threads at a time."""

    def __init__(self, backend: Backend, plan: Plan, *, caller: int = 0, warmth: Mapping[str, Any] = NOTHING) -> None:
        """``warmth`` are the fields of each job of source text that say what its interpreter is to be like."""
        self.caller = caller
        """Whose runs they are, where runs have to wait: callers take turns."""
        self.trace = 0
        """The number under which the next run's steps are noted: see ``_trace``."""
        self._backend, self._plan = backend, plan
        self._warmth = warmth
        # An engine in between has its say about the status; see ``SpeaksForItself``.
        self._translate: Any = getattr(backend, "translate", None)
        self._repeats: Callable[[Plan, Job], bool] = getattr(backend, "repeats", lambda *_: False)
        self._form: Form | None = None

    @contextmanager
    def open(
        self,
        job: Job,
        *,
        interactive: bool = False,
        keep: int | None = None,
        final: bool = True,
        place: Place | None = None,
        **how: Any,
    ) -> Iterator[Opened]:
        """Open a line and a conversation about ``job``. Leaving ends the run.

        ``place`` is the room for the run, taken before. ``interactive``, ``keep`` and ``final`` are for
        ``Conversation``, ``how`` for ``introduction``."""
        silent = job.stdin is None and not interactive
        plain = silent and not how
        how |= {"caller": self.caller, "trace": self.trace, "silent": silent}
        replays = job.stdin is None or isinstance(job.stdin, bytes)
        more: Any = {"silent": silent, "interactive": interactive, "keep": keep, "final": final, "replays": replays}
        # The line first: the warden wakes up while the launch is put together.
        with warden_process.line(place) as line:
            plan = _for_job(self._backend, self._plan, job)
            warmed = replace(job, **self._warmth) if self._warmth and job.source is not None else job
            with prepared(self._backend, plan, warmed) as launch:
                trace.note(self.trace, trace.PLANNED)
                apart = launch.apart(job.source) if plain and self._repeats(plan, warmed) else None
                words, line.said = introduction(apart or launch, line.said, **how)
                talk = self._talk(launch, plan, words, **more)
                if apart is not None:
                    self._form = Form(job, plan, apart, line.said)
                yield Outbox(talk, line.sock), line
            self._note(talk)

    @contextmanager
    def hasten(self, source: Any, options: Mapping[str, Any]) -> Iterator[Opened | None]:
        """Do so for ``source``, if it is to be run as the last one was but for its text; yield nothing if not.

        The words are on their way before all else is done that belongs to a run, which then happens beside the warden's
        own work.
        """
        form = self._form
        line = warden_process.idle_line() if form is not None and form.is_for(source, options) else None
        if line is not None and form is not None:
            with line:
                left = self._send(line, form, source)
                if left is not None:
                    talk = self._talk(form.launch, form.plan, left, silent=True, final=False)
                    yield Outbox(talk, line.sock), line
                    self._note(talk)
                    return
        yield None

    def _send(self, line: Line, form: Form, source: str) -> bytes | None:
        """Send the launch as far as it goes now; return the rest, or ``None`` if the other end is gone."""
        trace.note(self.trace, trace.PLANNED)
        text = encoded(source)
        try:
            words = repetition(text, form.said, line.said, self.trace)
            line.said = form.said
            trace.note(self.trace, trace.SENT)
            return words[send_now(line.sock, words) :]
        except BlockingIOError:
            return words
        except OSError:
            return None

    def recall(self, job: Job, source: Any, options: Mapping[str, Any]) -> None:
        """Take notice that ``options`` and ``source`` have made ``job``."""
        form = self._form
        if form is None or form.job() is not job:
            return  # another thread's has come in between, or this one is of no use for the next
        known = all(each is None or (name in _LASTING and type(each) is str) for name, each in options.items())
        if type(source) is str and known:
            form.options = dict(options)

    def _talk(self, launch: Launch, plan: Plan, words: bytes, **how: Any) -> Conversation:
        return Conversation(
            launch, plan, self._translate, outgoing=words, finish=workspace.finished, trace=self.trace, **how
        )

    def _note(self, talk: Conversation) -> None:
        if talk.result is not None and talk.result.ok:
            start_costs.note(self._backend.name, talk.seconds)


class Form:
    """A launch without its source."""

    options: Mapping[str, Any] | None = None
    """What was said of it beside the source, where that is known."""

    def __init__(self, job: Job, plan: Plan, launch: Launch, said: Mapping[str, Any]) -> None:
        """``launch`` has its source apart; ``said`` is what the warden knows of it."""
        self.job = weakref.ref(job)
        """The one that it was made of."""
        self.plan, self.said = plan, said
        self.launch = launch.remembered()

    def is_for(self, source: Any, options: Mapping[str, Any]) -> bool:
        """Return whether nothing is new but the source."""
        return type(source) is str and options == self.options


@contextmanager
def conversing(backend: Backend, plan: Plan, job: Job, **how: Any) -> Iterator[Opened]:
    """Open a line and a conversation about ``job`` alone; see ``Opener``."""
    with Opener(backend, plan).open(job, **how) as (outbox, line):
        yield outbox, line


@contextmanager
def prepared(backend: Backend, plan: Plan, job: Job) -> Iterator[Launch]:
    """Yield the launch of ``job``; leaving the context gives back what was taken for it."""
    refused = commands.refusal(job.argv, plan.policy.commands.allow, plan.policy.commands.refuse) if job.argv else ""
    if refused:
        raise JobError(refused)

    def spell(folder: str) -> Command:
        if job.source is None:
            return Command(argv=job.argv)
        return languages.find(job.language).command(job, plan, folder)

    job = workspace.looked_up(plan, job)
    if not getattr(backend, "keeps_workspaces", False):
        workspace.refuse_all(plan, job)
    with backend.prepare(plan, job, spell) as launch:
        if job.warm and not launch.warm:
            raise JobError(f"warm: no interpreter is kept warm by the backend {backend.name}, or for {job.language}")
        yield workspace.ordered(launch, job, plan.policy)


def concluded(outbox: Outbox) -> Result:
    """Return the verdict of a conversation that was held to its end."""
    assert outbox.talk.result is not None
    return outbox.talk.result


def _for_job(backend: Backend, plan: Plan, job: Job) -> Plan:
    if job.source is None:
        shows = not all(map(os.path.isfile, job.inputs))
        return plan_for_job(plan, "a command", counts=False, shows_host=shows)
    language = languages.find(job.language)
    apart: Callable[[Plan, str], bool] = getattr(backend, "shows_apart", lambda *_: False)
    shows = job.packages is not None and not apart(plan, job.packages)
    return plan_for_job(plan, f"{language.name} source", counts=language.counts_operations, shows_host=shows)
