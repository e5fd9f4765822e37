"""The arguments of public functions, turned into a job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from stockade.api.options import COMMAND_OPTIONS, RUN_OPTIONS, Archive, CommandOptions, RunOptions, check_names
from stockade.core import log
from stockade.core.errors import JobError
from stockade.languages import registry as languages
from stockade.languages.base import Language
from stockade.runs import stdin_file
from stockade.runs.hooks import checked_labels
from stockade.runs.job import Job
from stockade.runs.secret import GATEWAY, Secret, checked, placeholder
from stockade.workspace import artifacts as _artifacts
from stockade.workspace.artifacts import ArtifactLimits

Source = str | bytes | os.PathLike[str]

_LONGEST_NAME = 4096
_SUFFIXES = (".py", ".rb", ".js", ".mjs", ".cjs", ".sh")
_ARTIFACT_LIMITS = ArtifactLimits()


@log.refusals()
def job_from_source(source: Source, *, inputs: Sequence[str] = (), **options: Unpack[RunOptions]) -> Job:
    """Return the job of running ``source``, with ``inputs`` as in ``Job``.

    Raises ``TypeError`` for an unknown option, ``JobError`` otherwise.
    """
    check_names(options, RUN_OPTIONS)
    language, interpreter = options.get("language"), options.get("interpreter")
    name = ""
    if isinstance(source, str):
        _check_no_path(source)
    if isinstance(source, os.PathLike):
        path = Path(source)
        language = language or languages.by_suffix(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise JobError(f"{path}: {error.strerror}") from error
        name = path.name
    else:
        content = encoded(source) if isinstance(source, str) else _plain_bytes("source", source)
    known = languages.find(language or "python")
    return Job(
        source=content,
        language=known.name,
        requirements=_requirements(options, known, content),
        name=name,
        arguments=_texts("arguments", options.get("arguments", ())),
        interpreter=_path("interpreter", interpreter) if interpreter is not None else None,
        inputs=tuple(inputs),
        **_common(options),
    )


def _check_no_path(source: str) -> None:
    """Raise ``JobError`` if the text is the name of a program's file instead of a program."""
    is_name = len(source) < _LONGEST_NAME and source.endswith(_SUFFIXES) and "\n" not in source
    if is_name and os.path.isfile(source):  # noqa: PTH113 - Path.is_file raises for a name that is too long
        raise JobError(f"source: {source!r} is the name of a file; pass Path({source!r}) to run that file")


def encoded(source: str) -> bytes:
    """Return source text as the bytes of the file that an interpreter reads."""
    return source.encode("utf-8", "surrogatepass")


@log.refusals()
def job_from_command(argv: Sequence[str], *, inputs: Sequence[str] = (), **options: Unpack[CommandOptions]) -> Job:
    """Return the job of running the command ``argv``. Raises as ``job_from_source`` does."""
    check_names(options, COMMAND_OPTIONS)
    if isinstance(argv, str | bytes):
        raise JobError("a command is a list of words, such as ['sort', 'big.txt']; stockade splits no text into words")
    try:
        words = tuple(map(os.fspath, argv))
    except TypeError:
        raise JobError(f"a command is a list of words, each a text or a path, not {argv!r:.80}") from None
    if not words:
        raise JobError("a command is a list of words, such as ['sort', 'big.txt'], and this list is empty")
    return Job(argv=words, inputs=tuple(inputs), requirements=_of_command(options), **_common(options))


def warmth(preload: Sequence[str], warm: bool | None) -> dict[str, Any]:
    """Return the fields of a job that describe a runner's warm interpreters; empty if nothing is set."""
    if not _are_texts(preload):
        raise JobError(f"preload must be a list of module names, such as ['numpy', 'pandas'], not {preload!r:.80}")
    for name in preload:
        if not all(part.isidentifier() for part in name.split(".")):
            raise JobError(f"preload: {name!r} is not a module name")
    if preload and warm is False:
        raise JobError("preload needs a warm interpreter to import the modules, and warm=False forbids one")
    if warm is not None and not isinstance(warm, bool):
        raise JobError(f"warm = {warm!r:.80}: expected True, False or None")
    if not preload and warm is None:
        return {}
    return {"preload": tuple(preload), "warm": True if preload else warm}


def _folder(packages: str | os.PathLike[str]) -> str:
    from stockade.policy.parts.filesystem import host_path

    try:
        return host_path(os.fspath(packages))
    except (TypeError, ValueError) as error:
        raise JobError(f"packages: {packages!r}: {error}") from None


def _are_texts(values: object) -> bool:
    is_list = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    return is_list and all(isinstance(each, str) for each in values)  # type: ignore[attr-defined]


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not _are_texts(value):
        raise JobError(f"{name}: expected a list of texts, such as ['--fast', 'big.txt'], not {value!r:.80}")
    return tuple(value)


def _path(name: str, value: Any) -> str:
    try:
        path: str = os.fspath(value)
        return path
    except TypeError:
        raise JobError(f"{name}: expected a path, not {value!r:.80}") from None


def _mapping(name: str, value: Any, example: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise JobError(f"{name}: expected a mapping, such as {example}, not {value!r:.80}")
    return value


def _of_command(options: CommandOptions) -> tuple[str, ...]:
    """Return the requirements of a command."""
    requirements = options.get("requirements")
    if requirements is None:
        return ()
    from stockade.api.packages import wanted

    _check_own_environment(options)
    if requirements == wanted.INLINE:
        raise JobError("requirements: 'inline' reads the metadata of a script, and a command has none; name packages")
    return wanted.checked(requirements)


def _check_own_environment(options: CommandOptions) -> None:
    if options.get("packages") is not None:
        raise JobError("requirements: they make an environment of their own, so leave out packages")


def _requirements(options: RunOptions, language: Language, source: bytes) -> tuple[str, ...]:
    requirements = options.get("requirements")
    if requirements is None:
        return ()
    from stockade.api.packages import wanted

    if language.name != "python":
        raise JobError(f"requirements: they are for Python; for {language.name}, name a folder: packages=")
    _check_own_environment(options)
    if requirements == wanted.INLINE:
        interpreter = options.get("interpreter")
        found = language.interpreter(os.fspath(interpreter) if interpreter is not None else None)
        return wanted.inline(source, found.version)
    return wanted.checked(requirements)


def _plain_bytes(name: str, value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        remedy = (
            f"; its content is Path({os.fspath(value)!r:.80}).read_bytes()" if isinstance(value, os.PathLike) else ""
        )
        raise JobError(f"{name} must be text or bytes, not {type(value).__name__}{remedy}")
    return bytes(value)


def _common(options: CommandOptions) -> dict[str, Any]:
    """Return the fields of a job that source and commands share."""
    contents = {
        name: _encoded(f"files[{name!r}]", content)
        if isinstance(content, str)
        else _plain_bytes(f"files[{name!r}]", content)
        for name, content in _mapping("files", options.get("files"), "{'data.csv': b'1,2'}").items()
    }
    stdin: Any = options.get("stdin")
    archive, caps = options.get("archive"), options.get("caps")
    packages = options.get("packages")
    if caps is not None and not isinstance(caps, ArtifactLimits):
        raise JobError(f"caps: expected a stockade.ArtifactLimits, not {caps!r:.80}")
    environment = dict(_mapping("environment", options.get("environment"), "{'LANG': 'C.UTF-8'}"))
    secrets = checked(_mapping("secrets", options.get("secrets"), "{'API_KEY': stockade.Secret.from_env(...)}"))
    on_ask = options.get("on_ask")
    if on_ask is not None and not callable(on_ask):
        raise JobError(f"on_ask: expected a function that takes HOST:PORT and returns a bool, not {on_ask!r:.80}")
    return {
        "stdin": _stdin(stdin),
        "files": contents if archive is None else _with_archive(contents, archive),
        "packages": _folder(packages) if packages is not None else None,
        "environment": with_placeholders(environment, secrets),
        "secrets": secrets,
        "on_ask": on_ask,
        "artifacts": _artifacts.checked(options.get("artifacts", ())),
        "caps": caps or _ARTIFACT_LIMITS,
        "labels": checked_labels(options.get("labels")),
    }


def _stdin(value: Any) -> Any:
    """Return standard input as ``Job`` takes it. The content of a file is read now, unless it is large."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _encoded("stdin", value)
    if isinstance(value, os.PathLike):
        return stdin_file.named(value)
    return stdin_file.opened(value) if hasattr(value, "read") else value


def with_placeholders(environment: dict[str, str], secrets: Mapping[str, Secret]) -> dict[str, str]:
    """Return ``environment`` with the variables of ``secrets``. Raises ``JobError`` if both set one."""
    both = environment.keys() & {*secrets, GATEWAY} if secrets else ()
    if both:
        raise JobError(f"environment: {min(both)} is set by secrets as well")
    return {**environment, **{name: placeholder(name) for name in secrets}}


def _encoded(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise JobError(f"{name}: {text[error.start]!r} is half of a surrogate pair, which is not a character") from None


def _with_archive(contents: dict[str, bytes], archive: Archive) -> dict[str, bytes]:
    from stockade.workspace import archives

    if not isinstance(archive, bytes):
        _path("archive", archive)
    unpacked = archives.unpack(archive)
    both = contents.keys() & unpacked.keys()
    if both:
        raise JobError(f"files: {min(both)!r} is in the archive as well")
    return {**unpacked, **contents}
