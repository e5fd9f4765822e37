"""What people call: ``run``, ``run_command`` and ``Sandbox``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from stockade import _artifacts, _commands, _costs, _workspace
from stockade._artifacts import Caps
from stockade._errors import JobError
from stockade._events import LimitReached, OnWarning
from stockade._job import Command, Job
from stockade._launch import Launch
from stockade._plan import Plan, plan_for_job
from stockade._result import Result
from stockade._stream import KEPT, REPORT_SECONDS, Stream, check
from stockade.backends import registry as backends
from stockade.backends.base import Backend, SpeaksForItself
from stockade.client import blocking, wardens
from stockade.client.conversation import Conversation
from stockade.client.outbox import Outbox
from stockade.languages import registry as languages

if TYPE_CHECKING:
    from stockade._ceiling import Given
    from stockade._commit import Committed
    from stockade._policy import Policy
    from stockade._select import Selection

Source = str | bytes | os.PathLike[str]
Archive = bytes | os.PathLike[str] | str


class Sandbox:
    """A policy and a backend, ready to run things. Every run is a sandbox of its own: nothing is carried over.

    ``policy`` is a ``Policy`` or a profile's name, ``ceiling`` the most that it may ask for: see ``stockade.select``.
    Raises ``PlanError`` at once if a guarantee of the policy cannot be held here.
    """

    def __init__(
        self,
        policy: Policy | str | None = None,
        *,
        backend: str | Backend | None = None,
        trust: str | None = None,
        ceiling: Given | None = None,
    ) -> None:
        chosen = select(policy, trust=trust, backend=backend, ceiling=ceiling)
        self.backend = chosen.backend
        self.plan = chosen.plan
        self.policy = self.plan.policy

    def __enter__(self) -> Sandbox:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go; there is nothing to undo."""

    def run(self, source: Source, *, on_warning: OnWarning | None = None, **options: Any) -> Result:
        """Run source text, or a file whose suffix tells the language; see ``stockade.run`` for the options."""
        return self.run_job(job_from_source(source, **options), on_warning=on_warning)

    def run_command(self, argv: Sequence[str], *, on_warning: OnWarning | None = None, **options: Any) -> Result:
        """Run a command; see ``stockade.run_command`` for the options."""
        return self.run_job(job_from_command(argv, **options), on_warning=on_warning)

    def commit(self, result: Result) -> Committed:
        """Bring what the run behind ``result`` has changed into its project; see ``Result.commit``."""
        return result.commit()

    def run_job(self, job: Job, *, on_warning: OnWarning | None = None) -> Result:
        """Run a job and return its verdict."""
        with conversing(self.backend, self.plan, job) as (outbox, line):
            for event in blocking.events(outbox, line, job.stdin):
                if on_warning is not None and isinstance(event, LimitReached) and event.is_warning:
                    on_warning(event)
        return concluded(outbox)

    def stream(
        self,
        source: Source,
        *,
        interactive: bool = False,
        report_seconds: float | None = REPORT_SECONDS,
        **options: Any,
    ) -> Stream:
        """Run source text, or a file, and return its events as they happen; see ``stockade.run`` for the options.

        ``interactive`` leaves standard input open, to be written to until it is closed; ``report_seconds`` is how
        often the run's use is told, ``None`` never. Raises what ``run`` raises, before anything is started.
        """
        job = job_from_source(source, **options)
        return self.stream_job(job, interactive=interactive, report_seconds=report_seconds)

    def stream_command(
        self,
        argv: Sequence[str],
        *,
        interactive: bool = False,
        report_seconds: float | None = REPORT_SECONDS,
        **options: Any,
    ) -> Stream:
        """Run a command and return its events as they happen; see ``stream``."""
        job = job_from_command(argv, **options)
        return self.stream_job(job, interactive=interactive, report_seconds=report_seconds)

    def stream_job(
        self, job: Job, *, interactive: bool = False, report_seconds: float | None = REPORT_SECONDS
    ) -> Stream:
        """Run a job and return its events as they happen; see ``stream``."""
        check(job, interactive=interactive, report_seconds=report_seconds)
        how = {"live": True, "interactive": interactive, "report_seconds": report_seconds, "keep": KEPT}
        return Stream(partial(conversing, self.backend, self.plan, job, **how), job.stdin)


def run(
    source: Source,
    *,
    policy: Policy | str | None = None,
    language: str | None = None,
    arguments: Sequence[str] = (),
    stdin: str | bytes | BinaryIO | None = None,
    files: Mapping[str, str | bytes] | None = None,
    archive: Archive | None = None,
    artifacts: Sequence[str] = (),
    caps: Caps | None = None,
    environment: Mapping[str, str] | None = None,
    interpreter: str | os.PathLike[str] | None = None,
    packages: str | os.PathLike[str] | None = None,
    backend: str | Backend | None = None,
    trust: str | None = None,
    ceiling: Given | None = None,
    on_warning: OnWarning | None = None,
) -> Result:
    """Run source text (Python unless ``language`` says otherwise), or the file that a ``Path`` names.

    ``policy`` is a ``Policy`` or a profile's name, such as ``"strict"``.
    ``stdin`` is text, bytes or an open binary file; ``files`` are laid into the workspace by relative name, and so is
    what an ``archive`` (zip or tar, as a path or as bytes) holds; ``artifacts`` are patterns of files to bring out,
    such as ``["*.png", "out/**"]``, within ``caps``. ``interpreter`` is an executable or a virtual environment;
    ``packages`` a folder of installed packages to import from: a virtual environment, a gem folder or ``node_modules``,
    as the language has them.
    ``backend`` is a name or an object; unset, it is chosen as ``stockade.select`` says, which also tells of
    ``ceiling``. ``on_warning`` is called, in this thread, with a ``stockade.LimitReached`` for each limit of which four
    fifths are used, and for memory past its soft limit; what it raises ends the run. Returns the verdict, whatever the
    code did.

    Raises ``PolicyError``, ``JobError``, ``PlanError`` or ``BackendUnavailable`` before anything is started.
    """
    job = job_from_source(
        source,
        language=language,
        arguments=arguments,
        stdin=stdin,
        files=files,
        archive=archive,
        artifacts=artifacts,
        caps=caps,
        environment=environment,
        interpreter=interpreter,
        packages=packages,
    )
    return Sandbox(policy, backend=backend, trust=trust, ceiling=ceiling).run_job(job, on_warning=on_warning)


def run_command(
    argv: Sequence[str],
    *,
    policy: Policy | str | None = None,
    stdin: str | bytes | BinaryIO | None = None,
    files: Mapping[str, str | bytes] | None = None,
    archive: Archive | None = None,
    artifacts: Sequence[str] = (),
    caps: Caps | None = None,
    environment: Mapping[str, str] | None = None,
    backend: str | Backend | None = None,
    trust: str | None = None,
    ceiling: Given | None = None,
    on_warning: OnWarning | None = None,
) -> Result:
    """Run the command ``argv``; its program is looked for on the sandbox's own PATH. See ``run``."""
    job = job_from_command(
        argv, stdin=stdin, files=files, archive=archive, artifacts=artifacts, caps=caps, environment=environment
    )
    return Sandbox(policy, backend=backend, trust=trust, ceiling=ceiling).run_job(job, on_warning=on_warning)


def select(
    policy: Policy | str | None = None,
    *,
    trust: str | None = None,
    backend: str | Backend | None = None,
    ceiling: Given | None = None,
) -> Selection:
    """Return the backend that would be used for ``policy``, its plan, and the reason; runs no guest.

    ``trust`` is ``"trusted"``, ``"semi-trusted"``, ``"untrusted"`` or unset: see ``stockade.Trust``. A ``backend`` that
    is named is taken, or refused if it is not enough. ``ceiling`` (a ``Policy``, its fields as a mapping, a profile's
    name, or a file's ``Path``) bounds each field that it sets: a figure above it is lowered to it, a path outside of it
    is refused with ``PolicyError``. The administrator's in /etc/stockade/policy.toml bounds what is left.
    Raises ``BackendUnavailable`` with a sentence for each backend if none can hold the policy.
    """
    warden = wardens.current()  # starts while the policy's module is imported, which takes as long
    from stockade import _select
    from stockade._policy import Policy

    wanted = Policy.named(policy)
    if backend is None:
        return _select.select(wanted, warden.facts(), trust, ceiling)
    return _select.named(backends.find(backend), wanted, warden.facts(), trust, ceiling)


def plan(
    policy: Policy | str | None = None, *, backend: str | Backend | None = None, ceiling: Given | None = None
) -> Plan:
    """Return what would enforce each guarantee of ``policy`` here; runs nothing.

    Raises ``PlanError`` naming every guarantee that cannot be held, ``BackendUnavailable`` if nothing can,
    ``PolicyError`` if the policy's own system-call filter is none.
    """
    return select(policy, backend=backend, ceiling=ceiling).plan


@contextmanager
def prepared(backend: Backend, plan: Plan, job: Job) -> Iterator[Launch]:
    """Yield the launch of ``job``; leaving the context gives back what was taken for it."""
    refused = _commands.refusal(job.argv, plan.policy.commands.allow, plan.policy.commands.refuse) if job.argv else ""
    if refused:
        raise JobError(refused)

    planned = _for_job(plan, job)

    def spell(folder: str) -> Command:
        if job.source is None:
            return Command(argv=job.argv)
        return languages.find(job.language).command(job, planned, folder)

    job = _workspace.looked_up(plan, job)
    if not getattr(backend, "keeps_workspaces", False):
        _workspace.refuse_all(plan, job)
    with backend.prepare(planned, job, spell) as launch:
        yield _workspace.ordered(launch, job, plan.policy)


@contextmanager
def conversing(backend: Backend, plan: Plan, job: Job, **how: Any) -> Iterator[tuple[Outbox, wardens.Line]]:
    """Open a line and a conversation about ``job``; ``how`` is for ``Conversation``. Leaving ends the run.

    An engine in between has its say about the status.
    """
    plan = _for_job(plan, job)
    # The line first: the warden wakes up while the launch is put together.
    with wardens.current().line() as line, prepared(backend, plan, job) as launch:
        translate = backend.translate if isinstance(backend, SpeaksForItself) else None
        talk = Conversation(launch, plan, translate, finish=_workspace.finished, **how)
        yield Outbox(talk, line.sock), line
        if talk.result is not None and talk.result.ok:
            _costs.note(backend.name, talk.seconds)


def concluded(outbox: Outbox) -> Result:
    """Return the verdict of a conversation that was held to its end."""
    assert outbox.talk.result is not None
    return outbox.talk.result


def _for_job(plan: Plan, job: Job) -> Plan:
    if job.source is None:
        return plan_for_job(plan, "a command", counts=False)
    language = languages.find(job.language)
    return plan_for_job(plan, f"{language.name} source", counts=language.counts_operations)


def job_from_source(
    source: Source,
    *,
    language: str | None = None,
    arguments: Sequence[str] = (),
    stdin: str | bytes | BinaryIO | None = None,
    files: Mapping[str, str | bytes] | None = None,
    archive: Archive | None = None,
    artifacts: Sequence[str] = (),
    caps: Caps | None = None,
    environment: Mapping[str, str] | None = None,
    interpreter: str | os.PathLike[str] | None = None,
    packages: str | os.PathLike[str] | None = None,
) -> Job:
    """Return the job of running ``source``."""
    name = ""
    if isinstance(source, os.PathLike):
        path = Path(source)
        language = language or languages.by_suffix(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise JobError(f"{path}: {error.strerror}") from error
        name = path.name
    else:
        content = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else _plain_bytes(source)
    return Job(
        source=content,
        language=languages.find(language or "python").name,
        name=name,
        arguments=tuple(arguments),
        interpreter=os.fspath(interpreter) if interpreter is not None else None,
        packages=_folder(packages) if packages is not None else None,
        **_common(stdin, files, archive, environment),
        **_wanted(artifacts, caps),
    )


def job_from_command(
    argv: Sequence[str],
    *,
    stdin: str | bytes | BinaryIO | None = None,
    files: Mapping[str, str | bytes] | None = None,
    archive: Archive | None = None,
    artifacts: Sequence[str] = (),
    caps: Caps | None = None,
    environment: Mapping[str, str] | None = None,
    inputs: Sequence[str] = (),
) -> Job:
    """Return the job of running the command ``argv``."""
    if isinstance(argv, str | bytes):
        raise JobError("a command is a list of words, such as ['sort', 'big.txt']; nothing splits a text into words")
    try:
        words = tuple(map(os.fspath, argv))
    except TypeError:
        raise JobError(f"a command is a list of words, each a text or a path, not {argv!r:.80}") from None
    own = _common(stdin, files, archive, environment)
    return Job(argv=words, inputs=tuple(inputs), **own, **_wanted(artifacts, caps))


def _folder(packages: str | os.PathLike[str]) -> str:
    from stockade._policy_parts import host_path

    try:
        return host_path(os.fspath(packages))
    except (TypeError, ValueError) as error:
        raise JobError(f"packages: {packages!r}: {error}") from None


def _plain_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise JobError(f"source and files are text or bytes, not {type(value).__name__}")
    return bytes(value)


def _common(
    stdin: str | bytes | BinaryIO | None,
    files: Mapping[str, str | bytes] | None,
    archive: Archive | None,
    environment: Mapping[str, str] | None,
) -> dict[str, Any]:
    laid = {
        name: content.encode() if isinstance(content, str) else _plain_bytes(content)
        for name, content in (files or {}).items()
    }
    return {
        "stdin": stdin.encode() if isinstance(stdin, str) else stdin,
        "files": laid if archive is None else _with_archive(laid, archive),
        "environment": dict(environment or {}),
    }


def _with_archive(laid: dict[str, bytes], archive: Archive) -> dict[str, bytes]:
    from stockade import _archives

    unpacked = _archives.unpack(archive)
    both = laid.keys() & unpacked.keys()
    if both:
        raise JobError(f"files: {min(both)!r} is in the archive as well")
    return {**unpacked, **laid}


def _wanted(artifacts: Sequence[str], caps: Caps | None) -> dict[str, Any]:
    return {"artifacts": _artifacts.checked(artifacts), "caps": caps or Caps()}
