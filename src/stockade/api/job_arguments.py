"""The arguments of public functions, turned into a job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from stockade.api.options import COMMAND_OPTIONS, RUN_OPTIONS, Archive, CommandOptions, RunOptions, check_names
from stockade.core.errors import JobError
from stockade.languages import registry as languages
from stockade.runs.job import Job
from stockade.workspace import artifacts as _artifacts
from stockade.workspace.artifacts import ArtifactLimits

Source = str | bytes | os.PathLike[str]

_ARTIFACT_LIMITS = ArtifactLimits()


def job_from_source(source: Source, **options: Unpack[RunOptions]) -> Job:
    """Return the job of running ``source``. Raises ``TypeError`` for an unknown option, ``JobError`` otherwise."""
    check_names(options, RUN_OPTIONS)
    language, interpreter, packages = options.get("language"), options.get("interpreter"), options.get("packages")
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
        content = encoded(source) if isinstance(source, str) else _plain_bytes(source)
    return Job(
        source=content,
        language=languages.find(language or "python").name,
        name=name,
        arguments=tuple(options.get("arguments", ())),
        interpreter=os.fspath(interpreter) if interpreter is not None else None,
        packages=_folder(packages) if packages is not None else None,
        **_common(options),
    )


def encoded(source: str) -> bytes:
    """Return source text as the bytes of the file that an interpreter reads."""
    return source.encode("utf-8", "surrogatepass")


def job_from_command(argv: Sequence[str], *, inputs: Sequence[str] = (), **options: Unpack[CommandOptions]) -> Job:
    """Return the job of running the command ``argv``. Raises as ``job_from_source`` does."""
    check_names(options, COMMAND_OPTIONS)
    if isinstance(argv, str | bytes):
        raise JobError("a command is a list of words, such as ['sort', 'big.txt']; stockade splits no text into words")
    try:
        words = tuple(map(os.fspath, argv))
    except TypeError:
        raise JobError(f"a command is a list of words, each a text or a path, not {argv!r:.80}") from None
    return Job(argv=words, inputs=tuple(inputs), **_common(options))


def warmth(preload: Sequence[str], warm: bool | None) -> dict[str, Any]:
    """Return the fields of a job that describe a runner's warm interpreters; empty if nothing is set."""
    if isinstance(preload, str | bytes) or not all(isinstance(name, str) for name in preload):
        raise JobError(f"preload must be a list of module names, such as ['numpy', 'pandas'], not {preload!r:.80}")
    for name in preload:
        if not all(part.isidentifier() for part in name.split(".")):
            raise JobError(f"preload: {name!r} is not a module name")
    if preload and warm is False:
        raise JobError("preload needs a warm interpreter to import the modules, and warm=False forbids one")
    if not preload and warm is None:
        return {}
    return {"preload": tuple(preload), "warm": warm}


def _folder(packages: str | os.PathLike[str]) -> str:
    from stockade.policy.parts.filesystem import host_path

    try:
        return host_path(os.fspath(packages))
    except (TypeError, ValueError) as error:
        raise JobError(f"packages: {packages!r}: {error}") from None


def _plain_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise JobError(f"source and files must be text or bytes, not {type(value).__name__}")
    return bytes(value)


def _common(options: CommandOptions) -> dict[str, Any]:
    """Return the fields of a job that source and commands share."""
    contents = {
        name: content.encode() if isinstance(content, str) else _plain_bytes(content)
        for name, content in (options.get("files") or {}).items()
    }
    stdin, archive = options.get("stdin"), options.get("archive")
    return {
        "stdin": stdin.encode() if isinstance(stdin, str) else stdin,
        "files": contents if archive is None else _with_archive(contents, archive),
        "environment": dict(options.get("environment") or {}),
        "artifacts": _artifacts.checked(options.get("artifacts", ())),
        "caps": options.get("caps") or _ARTIFACT_LIMITS,
    }


def _with_archive(contents: dict[str, bytes], archive: Archive) -> dict[str, bytes]:
    from stockade.workspace import archives

    unpacked = archives.unpack(archive)
    both = contents.keys() & unpacked.keys()
    if both:
        raise JobError(f"files: {min(both)!r} is in the archive as well")
    return {**unpacked, **contents}
