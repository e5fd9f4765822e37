"""Sources of programs: a file of lines, or a folder of problems.

A source is read twice, first to check it and then to run it. It is never held in memory as a whole.
"""

from __future__ import annotations

import gzip
import hashlib
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from stockade.batch.reading import MAX_LINE, program_from_line, program_from_record
from stockade.batch.records import Program, RecordError
from stockade.core.errors import JobError
from stockade.languages import registry as languages

_PROGRAMS = (".py", ".rb", ".js", ".mjs", ".cjs", ".sh", *languages.COMPILED_SUFFIXES)
Entry = tuple[int, "Program | RecordError"]
Wanted = Callable[[int], bool]


@dataclass(frozen=True)
class Source:
    """An input of a batch."""

    kind: str
    name: str
    digest: Callable[[], str]
    """Returns a digest of all bytes of the input, so that a changed input is noticed."""
    entries: Callable[[Wanted], Iterator[Entry]]
    """Yields the programs that are wanted, with their numbers from 1; an invalid program is yielded as its error."""


@dataclass(frozen=True)
class Scan:
    """The facts about an input that are known before any program runs."""

    digest: str
    last: int
    """The largest number."""
    good: int
    bad: dict[int, str] = field(default_factory=dict)
    """Number of each bad program, and what is wrong: the record is invalid, or an earlier program has its id."""


def scan(source: Source, wrong: Callable[[Program], str] = lambda _: "") -> Scan:
    """Check every program of ``source``; ``wrong`` may return another reason to refuse a program."""
    seen: dict[bytes, int] = {}  # keys are digests, because an id may be long
    bad: dict[int, str] = {}
    last = 0
    for number, item in source.entries(lambda _: True):
        last = number
        reason = str(item) if isinstance(item, RecordError) else wrong(item) or duplicate(item, number, seen)
        if reason:
            bad[number] = reason
    return Scan(source.digest(), last, len(seen), bad)


def duplicate(program: Program, number: int, seen: dict[bytes, int]) -> str:
    """Return what is wrong if a program of another number has the same id. ``seen`` keeps a digest of each id."""
    key = hashlib.blake2b(program.id.encode(), digest_size=16).digest()
    first = seen.setdefault(key, number)
    return "" if first == number else f"id = {program.id!r}: program {first} has the same id"


def lines(path: Path) -> Source:
    """Return the source of the programs in a file with one JSON object on each line."""
    require_file(path)
    if path.suffix in _PROGRAMS:
        way = f"'stockade run {path}' runs it; to judge it, write one object on each line: id, source, stdin, expected"
        raise JobError(f"{path}: this is a program, not a file of programs; {way}")
    return Source("lines", path.name, lambda: digest_of([path]), lambda wanted: _line_entries(path, wanted))


def require_file(path: Path) -> None:
    """Raise ``JobError`` unless ``path`` is a regular file that can be opened, since it is read twice."""
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise JobError(f"{path}: {error.strerror}") from None
    if not path.is_file():
        raise JobError(f"{path}: not a regular file. The input is read twice, so write it to a regular file first")


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank with its number; a file whose name ends in ``.gz`` is unpacked."""
    with _opened(path) as file:
        number = 0
        while line := _line(file, path):
            number += 1
            if len(line) > MAX_LINE:
                while not line.endswith(b"\n") and line:
                    line = _line(file, path)
                yield number, b"\0"  # a line that is not JSON, so that it is refused
            elif not line.isspace():
                yield number, line


def _line(file: IO[bytes], path: Path) -> bytes:
    try:
        return file.readline(MAX_LINE + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:  # EOFError: the file ends in the middle
        raise JobError(f"{path}: cannot unpack the file: {error}") from None


def digest_of(paths: Iterable[Path]) -> str:
    """Return a digest of the names and the bytes of the files."""
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(f"{path.name}\0".encode() + hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _line_entries(path: Path, wanted: Wanted) -> Iterator[Entry]:
    for number, line in numbered_lines(path):
        if wanted(number):
            yield number, attempted(program_from_line, line)


def attempted(make: Callable[..., Program], *arguments: Any) -> Program | RecordError:
    """Return the program that ``make`` makes, or the error that it raises."""
    try:
        return make(*arguments)
    except RecordError as error:
        return error


def folder(path: Path, solutions: Path | None = None) -> Source:
    """Return the source of the solutions to the problems in a folder.

    Each problem is a folder with the files ``NAME.in`` and ``NAME.out`` for each case. It may hold ``problem.toml``
    with ``limits``, ``profile``, ``compare`` and ``tolerance``. The solutions are in its folder ``solutions``. With
    ``solutions``, they are in that folder instead: as ``PROBLEM/ANY.py``, or as ``PROBLEM.py``. ``path`` may also be
    the folder of one problem.
    """
    if solutions is not None and not solutions.is_dir():
        raise JobError(f"{solutions}: not a folder")
    problems = _problems(path)
    if not problems:
        raise JobError(f"{path}: no folder there holds cases, that is files NAME.in and NAME.out")
    tried = [(problem, solution) for problem in problems for solution in _solutions(problem, solutions)]
    if not tried:
        place = solutions or f"{path}/PROBLEM/solutions"
        names = f"{problems[0].name}/ANY.py or {problems[0].name}.py" if solutions else "ANY.py"
        raise JobError(f"{place}: no solutions; expected files such as {names} there")

    def entries(wanted: Wanted) -> Iterator[Entry]:
        for number, (problem, solution) in enumerate(tried, 1):
            if wanted(number):
                yield number, attempted(_from_files, problem, solution)

    def digest() -> str:
        inside = [file for problem in problems for file in sorted(problem.iterdir()) if file.is_file()]
        return digest_of([*inside, *(solution for _, solution in tried)])

    return Source("folder", path.name, digest, entries)


def _problems(path: Path) -> list[Path]:
    found = [place for place in (path, *sorted(path.iterdir())) if place.is_dir() and any(place.glob("*.in"))]
    return found[:1] if found[:1] == [path] else found


def _solutions(problem: Path, elsewhere: Path | None) -> list[Path]:
    own = problem / "solutions" if elsewhere is None else elsewhere / problem.name
    found = sorted(own.iterdir()) if own.is_dir() else []
    beside = sorted(elsewhere.glob("*")) if elsewhere is not None else []
    found += [path for path in beside if path.stem == problem.name]
    return [path for path in found if path.is_file() and not path.name.startswith(".")]


def _from_files(problem: Path, solution: Path) -> Program:
    try:
        record = {
            **_problem_fields(problem),
            "id": f"{problem.name}/{solution.name}",
            "problem": problem.name,
            "language": languages.COMPILED_SUFFIXES.get(solution.suffix.lower()) or languages.by_suffix(solution),
            "source": solution.read_text(encoding="utf-8"),
            "cases": [_case(path) for path in sorted(problem.glob("*.in"))],
        }
    except (OSError, ValueError, JobError) as error:
        raise RecordError(f"{solution}: {str(error).removeprefix(f'{solution}: ')}") from None
    return program_from_record(record)


def _problem_fields(problem: Path) -> dict[str, Any]:
    file = problem / "problem.toml"
    if not file.exists():
        return {}
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    unknown = sorted(set(data) - {"limits", "profile", "compare", "tolerance"})
    if unknown:
        raise ValueError(
            f"{file.name}: unknown field {unknown[0]!r}; the fields are limits, profile, compare and tolerance"
        )
    return data


def _case(path: Path) -> dict[str, Any]:
    wanted = path.with_suffix(".out")
    if not wanted.exists():
        raise ValueError(f"{path.name} has no {wanted.name} beside it")
    read = (file.read_text(encoding="utf-8") for file in (path, wanted))
    return {"name": path.stem, "stdin": next(read), "expected": next(read)}
