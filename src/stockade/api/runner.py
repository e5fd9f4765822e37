"""The public entry points: ``run``, ``run_command``, ``select``, ``plan`` and ``Runner``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack

from stockade.api import configured
from stockade.api.elsewhere import Elsewhere, run_elsewhere
from stockade.api.job_arguments import Source, job_from_command, job_from_source, warmth
from stockade.api.launcher import Launcher, concluded
from stockade.api.options import (
    COMMAND_OPTIONS,
    RUN_OPTIONS,
    CommandOptions,
    PolicyOptions,
    RunOptions,
    SingleCommandOptions,
    SingleRunOptions,
    overlaid,
    split,
)
from stockade.api.stream import REPORT_SECONDS, Stream, Streaming, stream_options
from stockade.backends import registry as backends
from stockade.backends.base import Backend
from stockade.client import blocking, warden_process
from stockade.client.connection import Connection
from stockade.client.exchange import LaunchLost
from stockade.client.send_queue import SendQueue
from stockade.core import log
from stockade.core.hints import known_options
from stockade.core.loading import load
from stockade.languages import registry as languages
from stockade.planning.plan import Plan
from stockade.runs.events import LimitReached, OnWarning
from stockade.runs.hooks import Hooks
from stockade.runs.job import Job
from stockade.runs.result import Result

if TYPE_CHECKING:
    from stockade.api.select import Selection
    from stockade.policy.ceiling import Given
    from stockade.policy.model import Policy, PolicyLike


_NUMBERS = count(1)
_NEEDED = ("api.select", "policy.model", "policy.merge", "linux.seccomp", "linux.seccomp.own", "linux.seccomp.words")
_WITHOUT_RUNNER = 0
"""The caller number of all runs by ``run`` and ``run_command``, which share one turn."""


class Runner(Streaming[Stream]):
    """Runs code under one policy and backend. Each run has a sandbox of its own: nothing is carried over.

    ``policy`` is a ``Policy``, its fields as a mapping, or a profile's name. ``limits`` (``stockade.PolicyOptions``:
    ``timeout``, ``cpu_time``, ``memory``, ``processes``, ``network``) replace these fields of it. ``ceiling`` is the
    most that both may ask for: see ``stockade.select``.

    From the third run of a kind on, a fork of a warm interpreter runs Python and Ruby source, if
    that gives the same guarantees. ``preload`` names modules that it imports in advance, such as ``["numpy"]``; then
    the first run waits for it. ``warm=True`` waits without any modules, and raises ``JobError`` if a job needs a fresh
    interpreter. ``warm=False`` starts a fresh interpreter for every run. ``requirements`` names packages that Python
    source may import and commands find on their PATH; they are provided at once, and a run that names an interpreter
    or packages does without them. ``hooks`` learn of every run: see ``stockade.Hooks``.

    Raises ``PlanError`` at once if a guarantee of the policy cannot be held here, and ``RequirementError`` if a package
    cannot be provided.
    """

    def __init__(
        self,
        policy: PolicyLike | None = None,
        *,
        backend: str | Backend | None = None,
        image: str | None = None,
        trust: str | None = None,
        ceiling: Given | None = None,
        preload: Sequence[str] = (),
        warm: bool | None = None,
        requirements: Sequence[str] = (),
        hooks: Hooks | None = None,
        **limits: Unpack[PolicyOptions],
    ) -> None:
        own = warmth(preload, warm)
        warden_process.current()  # the warden starts while the policy's modules are imported
        wanted = overlaid(policy, limits) if limits else policy
        chosen = select(wanted, trust=trust, backend=backend, image=image, ceiling=ceiling)
        self.backend = chosen.backend
        self.plan = chosen.plan
        self.policy = self.plan.policy
        # If runs have to wait, callers take turns.
        environment = _environment(requirements, self.policy) if requirements else None
        more: Any = {"warmth": own, "environment": environment, "hooks": hooks}
        self._launcher = Launcher(self.backend, self.plan, caller=next(_NUMBERS), **more)

    def __enter__(self) -> Runner:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: a runner holds no resources."""

    @known_options
    def run(self, source: Source, *, on_warning: OnWarning | None = None, **options: Unpack[RunOptions]) -> Result:
        """Run source text, or a file whose suffix names the language; see ``stockade.run`` for the options."""
        if type(self).run_job is Runner.run_job:  # a subclass may handle each job itself
            try:
                with self._launcher.fast_path(source, options) as opened:
                    if opened is not None:
                        return _complete(*opened, None, on_warning)
            except LaunchLost:  # run it the ordinary way, on a new warden
                return self._run_once(job_from_source(source, **options), on_warning)
        job = job_from_source(source, **options)
        result = self.run_job(job, on_warning=on_warning)
        self._launcher.remember(job, source, options)
        return result

    @known_options
    def run_command(
        self, argv: Sequence[str], *, on_warning: OnWarning | None = None, **options: Unpack[CommandOptions]
    ) -> Result:
        """Run a command; see ``stockade.run_command`` for the options."""
        return self.run_job(job_from_command(argv, **options), on_warning=on_warning)

    def run_job(self, job: Job, *, on_warning: OnWarning | None = None) -> Result:
        """Run a job and return its verdict."""
        try:
            return self._run_once(job, on_warning, final=False)
        except LaunchLost:
            return self._run_once(job, on_warning)

    def _run_once(self, job: Job, on_warning: OnWarning | None, *, final: bool = True) -> Result:
        with self.open_exchange(job, final=final) as (send_queue, connection):
            return _complete(send_queue, connection, job.stdin, on_warning)

    def stream_job(
        self, job: Job, *, interactive: bool = False, report_seconds: float | None = REPORT_SECONDS
    ) -> Stream:
        """Run a job and return its events as they happen; see ``stream``."""
        how = stream_options(job, interactive=interactive, report_seconds=report_seconds)
        return Stream(partial(self.open_exchange, job, **how), job.stdin)

    def open_exchange(self, job: Job, **how: Any) -> AbstractContextManager[tuple[SendQueue, Connection]]:
        """Open a connection and an exchange for ``job``, with ``how`` for ``Launcher.open``. Leaving ends the run."""
        return self._launcher.open(job, **how)


def _environment(requirements: Sequence[str], policy: Policy) -> str:
    from stockade.api.packages.provide import provide

    return provide(requirements, policy=policy)


def _complete(
    send_queue: SendQueue, connection: Connection, stdin: bytes | BinaryIO | None, on_warning: OnWarning | None
) -> Result:
    """Drive an exchange to its end; return the verdict."""
    for event in blocking.events(send_queue, connection, stdin):
        if on_warning is not None and isinstance(event, LimitReached) and event.is_warning:
            on_warning(event)
    return concluded(send_queue)


@known_options
def run(
    source: Source,
    *,
    policy: PolicyLike | None = None,
    backend: str | Backend | Elsewhere | None = None,
    image: str | None = None,
    trust: str | None = None,
    ceiling: Given | None = None,
    preload: Sequence[str] = (),
    warm: bool | None = None,
    on_warning: OnWarning | None = None,
    **options: Unpack[SingleRunOptions],
) -> Result:
    """Run source text (Python unless ``language`` says otherwise), or the file that a ``Path`` names.

    ``policy`` is a ``Policy``, its fields as a mapping, or a profile's name, such as ``"strict"``. ``backend`` is a
    name or an object, or a ``stockade.Remote``; without it, ``stockade.select`` chooses, and describes ``trust`` and
    ``ceiling``. ``image`` is the tag or digest of a local image to run in, by docker or podman. ``Runner`` describes
    ``preload`` and ``warm``.

    ``on_warning`` is called in this thread with a ``stockade.LimitReached`` for each limit of which four fifths are
    used, and when memory passes its soft limit. If ``on_warning`` raises, the run ends.

    ``timeout``, ``cpu_time``, ``memory``, ``processes`` and ``network`` replace these fields of ``policy``: see
    ``stockade.PolicyOptions``. The other options (``stockade.RunOptions``):

    - ``language``: the language of the source; without it Python, or the one that a file's suffix names.
    - ``arguments``: command-line arguments of the program.
    - ``stdin``: text, bytes, an open binary file, or the path of a file. A regular file of at most 16 MiB is a file
      for the guest as well: it can seek and map it. Anything else is a pipe, which is read as the guest reads.
    - ``files``: relative names and contents to write into the workspace.
    - ``archive``: a zip or tar file to unpack into the workspace, as a path or as bytes.
    - ``artifacts``: patterns of files to bring out, such as ``["out/**"]``; ``caps``: an ``ArtifactLimits`` for them.
    - ``environment``: variables to set for the guest.
    - ``interpreter``: an executable or a virtual environment to use instead of the language's default.
    - ``packages``: a folder of packages to import from: a virtual environment, a gem folder or ``node_modules``.
    - ``secrets``: a ``stockade.Secret`` for each variable that holds its placeholder; needs a bounded ``network``.
    - ``on_ask``: a function that decides about a ``HOST:PORT`` that a ``network`` with ``ask=True`` does not list.
    - ``labels``: what you say of the run, such as ``{"user": "alice"}``, for hooks and the audit log.
    - ``requirements``: names of packages for Python source or a command, such as ``["pandas>=2.2"]``, or ``"inline"``
      for those in the script's own metadata (PEP 723). pip or uv downloads before the run what is not there yet.

    Returns the verdict, whatever the code did. Raises ``PolicyError``, ``JobError``, ``RequirementError``,
    ``PlanError`` or ``BackendUnavailable`` before anything starts, and ``TypeError`` for an unknown option.
    """
    limits, rest = split(options, RUN_OPTIONS)
    job = job_from_source(source, **rest)
    how: Any = {"image": image, "trust": trust, "ceiling": ceiling, "preload": preload, "warm": warm}
    return _run_single(job, policy, backend, limits, on_warning, **how)


@known_options
def run_command(
    argv: Sequence[str],
    *,
    policy: PolicyLike | None = None,
    backend: str | Backend | Elsewhere | None = None,
    image: str | None = None,
    trust: str | None = None,
    ceiling: Given | None = None,
    on_warning: OnWarning | None = None,
    **options: Unpack[SingleCommandOptions],
) -> Result:
    """Run the command ``argv``, whose program is searched on the sandbox's own PATH; see ``run`` for the options."""
    limits, rest = split(options, COMMAND_OPTIONS)
    job = job_from_command(argv, **rest)
    return _run_single(job, policy, backend, limits, on_warning, image=image, trust=trust, ceiling=ceiling)


def _run_single(
    job: Job,
    policy: PolicyLike | None,
    backend: str | Backend | Elsewhere | None,
    limits: Mapping[str, Any],
    on_warning: OnWarning | None,
    **own: Any,
) -> Result:
    """Run a job by a runner of its own, whose options are ``own``, or elsewhere."""
    if isinstance(backend, Elsewhere):
        return run_elsewhere(backend, job, policy, limits, on_warning, **own)
    runner = Runner(policy, backend=backend, **own, **limits)
    runner._launcher.caller = _WITHOUT_RUNNER
    return runner.run_job(job, on_warning=on_warning)


@known_options
def select(
    policy: PolicyLike | None = None,
    *,
    trust: str | None = None,
    backend: str | Backend | None = None,
    image: str | None = None,
    ceiling: Given | None = None,
) -> Selection:
    """Return the backend that would be used for ``policy``, its plan, and the reason. No guest runs.

    ``trust`` is ``"trusted"``, ``"semi-trusted"``, ``"untrusted"`` or unset: see ``stockade.Trust``. A named
    ``backend`` is used, or refused if it isolates too little; an ``image`` names the backend that takes images.
    ``ceiling`` is a ``Policy``, its fields as a mapping, a
    profile's name, or a file's ``Path``. It bounds each field that it sets: a higher figure is lowered to it, and a
    path outside of it raises ``PolicyError``. The administrator's ceiling in /etc/stockade/policy.toml applies after
    that. Raises ``BackendUnavailable`` with a sentence for each backend if none can hold the policy.
    """
    warden_process.current()  # the warden starts while the other modules are imported, which takes as long
    _load_all()
    from stockade.api import select as _select
    from stockade.policy.model import Policy

    with log.refusals():
        wanted = Policy.named(configured.policy() if policy is None else policy)
        if backend is None and image is None:
            return _select.select(wanted, warden_process.host_facts(), trust, ceiling)
        return _select.named(backends.find(backend, image), wanted, warden_process.host_facts(), trust, ceiling)


@cache
def _load_all() -> None:
    """Import all modules that a run may need: later, no descriptor may be free, or the files may be gone.

    A backend's modules are not among them: ``select`` imports those of each backend that it looks at.
    """
    for module in (*_NEEDED, *(place.partition(":")[0] for place in languages.BUILT_IN.values())):
        load(f"stockade.{module.removeprefix('stockade.')}")


@known_options
def plan(
    policy: PolicyLike | None = None,
    *,
    backend: str | Backend | None = None,
    image: str | None = None,
    ceiling: Given | None = None,
) -> Plan:
    """Return what would enforce each guarantee of ``policy`` here. Nothing runs.

    Raises ``PlanError`` naming every guarantee that cannot be held, ``BackendUnavailable`` if nothing can,
    ``PolicyError`` if the policy's own system-call filter is invalid.
    """
    return select(policy, backend=backend, image=image, ceiling=ceiling).plan
