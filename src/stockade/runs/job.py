"""The job of a run: source text in a language, or a command."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import BinaryIO

from stockade.core.dataclass import dataclass
from stockade.core.errors import JobError
from stockade.runs.secret import Secret
from stockade.workspace.artifacts import ArtifactLimits
from stockade.workspace.project import Project

_LONGEST_NAME, _LONGEST_PATH = 255, 3000  # NAME_MAX; PATH_MAX, less what the workspace's own path may take
_LONGEST_WORD = 32 * os.sysconf("SC_PAGE_SIZE")  # MAX_ARG_STRLEN, which includes the NUL at the end
STDIN_TYPES = bytes | BinaryIO | None


@dataclass(frozen=True)
class Job:
    """Describes what to run: either the command ``argv``, or ``source`` in a ``language``."""

    argv: tuple[str, ...] = ()
    source: bytes | None = None
    language: str = ""
    name: str = ""
    """The source's file name inside the sandbox and in tracebacks."""
    arguments: tuple[str, ...] = ()
    interpreter: str | None = None
    """An interpreter or a virtual environment to use instead of the language's default."""
    packages: str | None = None
    """Absolute path of a folder of installed packages, of the language's own kind, to show and import from."""
    requirements: tuple[str, ...] = ()
    """Packages to provide by name before the run. The environment that has them then becomes the interpreter."""
    stdin: bytes | BinaryIO | None = None
    """Bytes, or an open binary file that is read as the guest reads. The guest gets a ``FileContent`` as a file."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files to write into an empty workspace: relative name to content."""
    executables: frozenset[str] = frozenset()
    """The names in ``files`` that may be executed."""
    inputs: tuple[str, ...] = ()
    """Files or folders of the host, below the current folder, to show read-only in an empty workspace."""
    environment: Mapping[str, str] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    """Patterns of files to collect from the workspace after the run."""
    caps: ArtifactLimits = field(default_factory=ArtifactLimits)
    """Bounds on the collected artifacts."""
    preload: tuple[str, ...] = ()
    """Modules that a warm interpreter imports before the job arrives."""
    warm: bool | None = None
    """Whether a warm interpreter must run the job (``True``) or must not (``False``); ``None`` permits both."""
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    """Values that the run's proxy sets in for the guest, by the name of the variable that holds the placeholder."""
    on_ask: Callable[[str], bool] | None = None
    """Decides about a ``HOST:PORT`` that ``network.allow`` does not list."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the caller says of the run, such as its user, for hooks and the audit log."""
    project: Project | None = None
    """The host folder behind the workspace, as scanned just before the run."""

    def mode_of(self, name: str) -> int:
        """Return the permissions of one of ``files``."""
        return 0o755 if name in self.executables else 0o644

    def __post_init__(self) -> None:
        """Refuse a job that cannot run."""
        if bool(self.argv) == (self.source is not None):
            raise JobError("a job is either a command or source text")
        _check_strings((*self.argv, *self.arguments), self.environment)
        if not _can_be_read(self.stdin):
            raise JobError(f"stdin must be text, bytes, a path or an open binary file, not {type(self.stdin).__name__}")
        for name, content in self.files.items():
            if not isinstance(content, bytes):
                raise JobError(f"files: the content of {name!r} must be text or bytes, not {type(content).__name__}")
        if self.argv and not self.argv[0]:
            raise JobError("the command is empty")
        for name in (*self.files, *self.inputs):
            _check_name(name)
        inner = next((each for each in self.files for part in _parents(each) if part in self.files), None)
        if inner is not None:
            raise JobError(f"{inner!r}: another file has the name of the folder that contains this one")
        _check_no_collision(self.files, self.inputs)


def _check_strings(arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
    named = [*(("an argument", text) for text in arguments), *(("a variable's name", name) for name in environment)]
    named += [(f"environment[{name!r}]", text) for name, text in environment.items()]
    for name, text in named:
        if not isinstance(text, str) or "\0" in text:
            raise JobError(f"{name} = {text!r:.80}: must be text without NUL bytes")
    for name in environment:
        if not name or "=" in name:
            raise JobError(f"environment: {name!r} is not a variable name: it is empty or contains '='")
    for text in (*arguments, *map("=".join, environment.items())):
        if len(_encoded(text)) >= _LONGEST_WORD:
            raise JobError(
                f"{text[:40]!r}...: an argument or a variable has {_LONGEST_WORD:,} bytes or more, and Linux takes "
                "fewer (execve(2), MAX_ARG_STRLEN); pass it as a file or on standard input"
            )


def _encoded(text: str) -> bytes:
    try:
        return os.fsencode(text)
    except UnicodeEncodeError as error:
        raise JobError(f"{text!r:.80}: cannot be encoded, and names and arguments must be: {error.reason}") from None


def _check_name(name: str) -> None:
    parts = name.split("/")
    if not name or "\0" in name or name.startswith("/") or ".." in parts or "" in parts or "." in parts:
        raise JobError(f"{name!r}: a file's name in the workspace is relative and has no '..' in it")
    if len(_encoded(name)) > _LONGEST_PATH or any(len(_encoded(part)) > _LONGEST_NAME for part in parts):
        raise JobError(f"{name[:40]!r}...: a file's name is longer than Linux takes ({_LONGEST_NAME} bytes a part)")


def _check_no_collision(files: Mapping[str, bytes], inputs: tuple[str, ...]) -> None:
    """Refuse a file in a folder of the workspace that is there only to show a path of the host, read-only."""
    shown = {name.split("/")[0]: name for name in inputs}
    for name in files:
        if name.split("/")[0] in shown:
            raise JobError(
                f"files: {name!r} collides with {shown[name.split('/')[0]]!r}, which the run shows read-only because a "
                "word of it names that path; put the file elsewhere, or show the whole folder as the workspace"
            )


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _can_be_read(stdin: object) -> bool:
    if stdin is None or isinstance(stdin, bytes | bytearray | memoryview):
        return True
    return hasattr(stdin, "read") and not isinstance(stdin, io.TextIOBase)


@dataclass(frozen=True)
class Command:
    """The command that a language makes of a job, and what the command needs in the sandbox."""

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Absolute path in the sandbox to content."""
    agent: tuple[tuple[str, bytes], ...] = ()
    """Files that are the same for every job of the language: absolute path in the sandbox, and content."""
    readable: tuple[str, ...] = ()
    """Files and folders of the host that make up the interpreter."""
    packages: tuple[str, ...] = ()
    """Host folders with packages that the caller named. They are shown like the paths that the policy lets be read."""
    environment: Mapping[str, str] = field(default_factory=dict)
    channel: bool = False
    """Whether the command reports a value on descriptor 3."""
    own_tasks: int = 1
    """Tasks that the interpreter needs for itself, its main one included. All further tasks are the job's."""
    template: Template | None = None
    """How to start a warm interpreter for the job; ``None`` if the job needs a fresh one."""

    @property
    def all_files(self) -> Mapping[str, bytes]:
        """Every file that must exist before the command is executed: absolute path in the sandbox to content."""
        return {**self.files, **dict(self.agent)}


@dataclass(frozen=True)
class Template:
    """A warm interpreter: the command that starts it, in an instance of its own."""

    argv: tuple[str, ...]
    shown: tuple[tuple[str, str], ...] = ()
    """Host files to show, each with its absolute path in the sandbox."""
    files: tuple[tuple[str, bytes], ...] = ()
    """Absolute path in the sandbox, and content."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the interpreter that its forks do not get."""
