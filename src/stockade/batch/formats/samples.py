"""Code that the formats share: reading records, matching samples to problems, and making sources of both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stockade.batch.reading import check, parse
from stockade.batch.records import Program, RecordError
from stockade.batch.sources import Entry, Source, Wanted, digest_of, numbered_lines, require_file
from stockade.core.errors import JobError

Record = Mapping[str, Any]
Make = Callable[[Record, str, str], Program]
"""Makes a program of a problem, an id and a sample's text."""


def records(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield number and record of a file, or the error in it: elements of a JSON array, or one record in each line."""
    require_file(path)
    if path.suffix == ".json":
        try:
            data = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise JobError(f"{path}: not JSON: {error}") from None
        yield from enumerate(data if isinstance(data, list) else [data], 1)
        return
    for number, line in numbered_lines(path):
        try:
            yield number, parse(line)
        except RecordError as error:
            yield number, error


def problems(path: Path, key: str) -> dict[str, Record]:
    """Return the problems in a file by their names, which are in the field ``key``. Raises ``JobError``."""
    found = {}
    for number, record in records(path):
        if not isinstance(record, Mapping) or not isinstance(record.get(key), str | int):
            raise JobError(f"{path}, record {number}: {record if isinstance(record, RecordError) else f'no {key!r}'}")
        found[str(record[key])] = record
    if not found:
        raise JobError(f"{path}: the file holds no problems")
    return found


def references(kind: str, known: Mapping[str, Record], paths: Sequence[Path], texts: Any, make: Make) -> Source:
    """Return the source of the problems' own solutions; ``texts`` returns the solutions of one problem."""

    def entries(wanted: Wanted) -> Iterator[Entry]:
        number = 0
        for name, problem in known.items():
            each = _solutions(texts, problem, name)
            for place, text in enumerate(each):
                number += 1
                if wanted(number):
                    yield number, _program_or_error(make, problem, name if len(each) == 1 else f"{name}#{place}", text)

    return Source(kind, kind, lambda: digest_of(paths), entries)


def sampled(
    kind: str,
    known: Mapping[str, Record],
    paths: Sequence[Path],
    make: Make,
    *,
    keys: Sequence[str],
    texts: Sequence[str],
) -> Source:
    """Return the source of the samples in the last of ``paths``.

    Each record names its problem in one of the fields ``keys``, and holds a text, or a list of texts, in one of
    ``texts``. The id of a sample is the name of its problem and the sample's number among those of the problem.
    """

    def entries(wanted: Wanted) -> Iterator[Entry]:
        number, places = 0, Counter[str]()
        for _, record in records(paths[-1]):
            for name, text in _texts(record, known, keys, texts):
                number += 1
                place = places[name]
                places[name] += 1
                if wanted(number):
                    yield number, _program_or_error(make, known.get(name, {}), f"{name}#{place}", text)

    return Source(kind, paths[-1].name, lambda: digest_of(paths), entries)


def _texts(
    record: Any, known: Mapping[str, Record], keys: Sequence[str], texts: Sequence[str]
) -> list[tuple[str, str | RecordError]]:
    if isinstance(record, RecordError):
        return [("", record)]
    if not isinstance(record, Mapping):
        return [("", RecordError(f"a sample must be an object with {keys[0]!r} and {texts[0]!r}"))]
    name = str(next((record[key] for key in keys if key in record), ""))
    if name not in known:
        wrong = (
            f"{keys[0]} = {name!r}: unknown problem" if name else f"'{keys[0]}' is missing: which problem is it for?"
        )
        return [("", RecordError(wrong))]
    text_or_list = next((record[key] for key in texts if key in record), None)
    each = text_or_list if isinstance(text_or_list, list) else [text_or_list]
    found: list[tuple[str, str | RecordError]] = [(name, text) for text in each if isinstance(text, str)]
    if not each or len(found) < len(each):
        return [("", RecordError(f"{name}: none of these fields holds a text: {', '.join(texts)}"))]
    return found


def _program_or_error(make: Make, problem: Record, name: str, text: str | RecordError) -> Program | RecordError:
    if isinstance(text, RecordError):
        return text
    try:
        program = make(problem, name, text)
        check(program)
        return program
    except RecordError as error:
        return RecordError(f"{name}: {error}")
    except Exception as error:  # a foreign record may break its reader in any way
        return _unexpected(name, error)


def _solutions(texts: Any, problem: Record, name: str) -> list[str | RecordError]:
    try:
        return list(texts(problem))
    except Exception as error:
        return [_unexpected(name, error)]


def _unexpected(name: str, error: Exception) -> RecordError:
    return RecordError(f"{name}: the problem does not follow the format: {error!r:.200}")
