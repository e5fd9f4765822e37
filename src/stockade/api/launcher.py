"""The way from a job to an exchange with the warden.

Most callers run one program after another and change only the source. So everything else is computed once and kept
in a template.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from stockade.api import configured, start_costs, workspace
from stockade.api.brokered import opened, with_secrets
from stockade.api.job_arguments import encoded
from stockade.api.observation import observation
from stockade.backends.base import Backend, JobChecker, LaunchRepeater, PackageIsolator, ReportTranslator
from stockade.backends.shared.limits import filters_syscalls
from stockade.client import warden_process
from stockade.client.connection import Connection
from stockade.client.exchange import Exchange, introduction, repetition
from stockade.client.run_slots import RunSlot
from stockade.client.send_queue import SendQueue
from stockade.client.sockets import send_now
from stockade.core import log, trace
from stockade.core.errors import JobError
from stockade.core.launch import Launch
from stockade.core.loading import load
from stockade.languages import registry as languages
from stockade.languages.base import in_image
from stockade.planning import syscall_filter
from stockade.planning.plan import Plan, plan_for_job
from stockade.policy import commands
from stockade.policy.guarantees import Guarantee
from stockade.runs.hooks import Hooks, Kind
from stockade.runs.job import Command, Job
from stockade.runs.result import Result
from stockade.runs.stdin_file import FileContent

Opened = tuple[SendQueue, Connection]
NOTHING: Mapping[str, Any] = MappingProxyType({})
_PARTS_OF_MEMORY = 4
_LASTING = ("language", "interpreter")
"""Options that mean the same in a later run if their text is the same. An archive's file may have changed by then."""


class Launcher:
    """Opens exchanges for jobs under one plan. Thread-safe."""

    def __init__(
        self,
        backend: Backend,
        plan: Plan,
        *,
        caller: int = 0,
        warmth: Mapping[str, Any] = NOTHING,
        environment: str | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        """``warmth`` holds the fields of each source job that describe its warm interpreter.

        ``environment`` is that of commands and of Python jobs which name no packages and no interpreter.
        """
        self.caller = caller
        """The number of the caller. If runs have to wait, callers take turns."""
        self.trace = 0
        """The number under which the next run's steps are noted: see ``core.trace``."""
        self._backend, self._plan = backend, plan
        self._warmth, self._environment = warmth, environment
        self._hooks = hooks
        self._translate = backend.translate if isinstance(backend, ReportTranslator) else None
        self._repeats = backend.repeats if isinstance(backend, LaunchRepeater) else _never_repeats
        self._check = backend.check if isinstance(backend, JobChecker) else None
        self._template: LaunchTemplate | None = None

    def prefer(self, preload: tuple[str, ...]) -> None:
        """Import ``preload`` into warm interpreters. Jobs that cannot use one run all the same, in a fresh one."""
        self._warmth = {"preload": preload, "warm": None}

    @contextmanager
    def open(
        self,
        job: Job,
        *,
        interactive: bool = False,
        keep: int | None = None,
        final: bool = True,
        slot: RunSlot | None = None,
        **how: Any,
    ) -> Iterator[Opened]:
        """Open a connection and an exchange for ``job``. Leaving ends the run.

        ``slot`` is a run slot that the caller holds already. ``interactive``, ``keep`` and ``final`` are for
        ``Exchange``, and ``how`` is for ``introduction``.
        """
        given, job = job, self.provided(job)
        plain = job.stdin is None and not interactive and not how
        as_file = isinstance(job.stdin, FileContent) and self._gives_files(len(job.stdin))
        silent = (job.stdin is None or as_file) and not interactive
        how |= {"caller": self.caller, "trace": self.trace, "silent": silent}
        replays = job.stdin is None or isinstance(job.stdin, bytes)
        more: Any = {"silent": silent, "interactive": interactive, "keep": keep, "final": final, "replays": replays}
        labels = configured.labelled(job.labels)
        kind: Kind = "command" if job.source is None else "source"
        observed = observation(self._hooks, self._plan, kind, job, labels)
        # Connect first: the warden wakes up while the launch is made.
        with (
            observed.refusals(),
            opened(job, self._plan.policy) as broker,
            warden_process.connect(slot, broker) as connection,
        ):
            plan = _for_job(self._backend, self._plan, job)
            warmed = replace(job, **self._warmth) if self._warmth and job.source is not None else job
            with log.refusals(), prepared(self._backend, plan, warmed) as made, observed:
                trace.note(self.trace, trace.PLANNED)
                launch = made.adding(steps=(*made.steps, ("stdin_file", job.stdin))) if as_file else made
                if labels:
                    launch = launch.adding(labels=configured.as_texts(labels))
                separated = launch.with_separate_source(job.source) if plain and self._repeats(plan, warmed) else None
                message, connection.remembered = introduction(separated or launch, connection.remembered, **how)
                exchange = self._exchange(launch, plan, message, **more)
                if separated is not None:
                    self._template = LaunchTemplate(given, plan, separated, connection.remembered)
                yield SendQueue(exchange, connection.sock, observed.note), connection
            self._note(exchange)

    def _gives_files(self, size: int) -> bool:
        """Return whether a guest may have standard input of ``size`` bytes as a file, which is in its own memory."""
        memory = self._plan.policy.limits.figure(Guarantee.MEMORY)
        fits = memory is None or size * _PARTS_OF_MEMORY <= memory
        filtered = filters_syscalls(self._plan.facts)
        return fits and (not filtered or syscall_filter.allows(self._plan, "memfd_create"))

    def provided(self, job: Job) -> Job:
        """Return the job with its packages. This may take minutes, if they have to be downloaded."""
        if self._check is not None:
            self._check(job)
        named = job.packages or job.interpreter
        if not job.requirements and (self._environment is None or named or job.language not in ("", "python")):
            return job
        from stockade.api.packages.provide import provided, with_environment

        if self._environment is not None and not job.requirements:
            return with_environment(job, self._environment)
        return provided(job, self._plan.policy)

    @contextmanager
    def fast_path(self, source: Any, options: Mapping[str, Any]) -> Iterator[Opened | None]:
        """Open an exchange for ``source`` if only the text differs from the last run; yield ``None`` if not.

        The message is sent first. All other work of the run then overlaps with the warden's own work. A run with hooks
        or labels takes the ordinary path.
        """
        ordinary = self._hooks is not None or configured.hooks() or configured.labels()
        template = None if ordinary else self._template
        connection = (
            warden_process.idle_connection() if template is not None and template.is_for(source, options) else None
        )
        if connection is not None and template is not None:
            with connection:
                left = self._send(connection, template, source)
                if left is not None:
                    exchange = self._exchange(template.launch, template.plan, left, silent=True, final=False)
                    yield SendQueue(exchange, connection.sock), connection
                    self._note(exchange)
                    return
        yield None

    def _send(self, connection: Connection, template: LaunchTemplate, source: str) -> bytes | None:
        """Send as much of the launch as the socket takes; return the rest, or ``None`` if the warden is gone."""
        trace.note(self.trace, trace.PLANNED)
        text = encoded(source)
        try:
            message = repetition(text, template.remembered, connection.remembered, self.trace)
            connection.remembered = template.remembered
            trace.note(self.trace, trace.SENT)
            return message[send_now(connection.sock, message) :]
        except BlockingIOError:
            return message
        except OSError:
            return None

    def remember(self, job: Job, source: Any, options: Mapping[str, Any]) -> None:
        """Note that ``source`` and ``options`` made ``job``, so that the next run may take the fast path."""
        template = self._template
        if template is None or template.job() is not job:
            return  # another thread's run came in between, or this job has no template
        known = all(each is None or (name in _LASTING and type(each) is str) for name, each in options.items())
        if type(source) is str and known:
            template.options = dict(options)

    def _exchange(self, launch: Launch, plan: Plan, message: bytes, **how: Any) -> Exchange:
        return Exchange(
            launch,
            plan,
            self._translate,
            outgoing=message,
            finish=workspace.finished,
            trace=self.trace,
            no_signals_because=self._backend.traits.no_signals_because,
            **how,
        )

    def _note(self, exchange: Exchange) -> None:
        if exchange.result is not None and exchange.result.ok:
            start_costs.note(self._backend.name, exchange.seconds)


class LaunchTemplate:
    """A launch without its source."""

    options: Mapping[str, Any] | None = None
    """The options of the run besides the source, if they mean the same in a later run."""

    def __init__(self, job: Job, plan: Plan, launch: Launch, fields: Mapping[str, Any]) -> None:
        """``launch`` holds its source outside of its steps; ``fields`` is what the warden remembers of it."""
        self.job = weakref.ref(job)
        """The job that the template was made from."""
        self.plan, self.remembered = plan, fields
        self.launch = launch.remembered()

    def is_for(self, source: Any, options: Mapping[str, Any]) -> bool:
        """Return whether a run of ``source`` with ``options`` differs in its source alone."""
        return type(source) is str and options == self.options


@contextmanager
def open_exchange(backend: Backend, plan: Plan, job: Job, **how: Any) -> Iterator[Opened]:
    """Open a connection and an exchange for ``job`` alone; see ``Launcher``."""
    with Launcher(backend, plan).open(job, **how) as (send_queue, connection):
        yield send_queue, connection


@contextmanager
def prepared(backend: Backend, plan: Plan, job: Job) -> Iterator[Launch]:
    """Yield the launch of ``job``. Leaving the context releases the resources taken for it."""
    check_command(plan, job.argv)
    with unchecked(backend, plan, job) as launch:
        yield launch


def check_command(plan: Plan, argv: tuple[str, ...]) -> None:
    """Raise ``JobError`` if the policy refuses the command."""
    refused = commands.refusal(argv, plan.policy.commands.allow, plan.policy.commands.refuse) if argv else ""
    if refused:
        raise JobError(refused)


@contextmanager
def unchecked(backend: Backend, plan: Plan, job: Job) -> Iterator[Launch]:
    """Yield the launch of ``job``, whatever its command; see ``prepared``."""

    def make_command(folder: str) -> Command:
        if job.source is None:
            made: Command = load("stockade.api.programs:command_of")(
                job, plan, shows_programs=backend.traits.shows_programs
            )
            return made
        language = languages.find(job.language)
        if backend.traits.brings_programs:
            return language.command(replace(job, interpreter=in_image(language.name, job.interpreter)), plan, folder)
        return language.command(job, plan, folder)

    job = workspace.with_project(plan, job)
    if not backend.traits.keeps_workspaces:
        workspace.refuse_all(plan, job)
    with backend.prepare(plan, job, make_command) as made:
        launch = made if job.source is None or made.warm else _cold(made, backend, job)
        yield workspace.with_collection(launch, job, plan.policy)


def _cold(launch: Launch, backend: Backend, job: Job) -> Launch:
    """Add the reason why ``launch`` starts cold. Raises ``JobError`` if the job insists on a warm start."""
    reason = launch.cold or f"the backend {backend.name} keeps no interpreter warm"
    if job.warm:
        raise JobError(f"{'preload' if job.preload else 'warm'}: a fresh interpreter is needed: {reason}")
    return launch.adding(cold=reason)


def concluded(send_queue: SendQueue) -> Result:
    """Return the verdict of a complete exchange."""
    assert send_queue.exchange.result is not None
    return send_queue.exchange.result


def _never_repeats(_plan: Plan, _job: Job) -> bool:
    return False


def _for_job(backend: Backend, plan: Plan, job: Job) -> Plan:
    plan = with_secrets(plan, job.secrets)
    shows = not all(map(os.path.isfile, job.inputs))
    if job.packages is not None:
        shows |= not (isinstance(backend, PackageIsolator) and backend.shows_through_overlay(plan, job.packages))
    if job.source is None:
        return plan_for_job(plan, "a command", counts=False, shows_host=shows)
    language = languages.find(job.language)
    return plan_for_job(plan, f"{language.name} source", counts=language.counts_operations, shows_host=shows)
