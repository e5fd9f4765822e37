"""Requirements as text: their grammar, and the inline metadata of a script (PEP 723).

A requirement is a name with extras, versions, a marker and digests. Anything else that pip would accept is refused: an
option, a URL, a path. So a requirement names a package of the caller's own index and nothing more.
"""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any

from stockade.core.errors import JobError, RequirementError

INLINE = "inline"
"""The value of ``requirements`` that reads the script's own metadata."""
MOST = 200
LONGEST = 2000
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_VERSION = r"(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+"
_VERSIONS = rf"{_VERSION}(?:\s*,\s*{_VERSION})*"
_REQUIREMENT = re.compile(
    rf"(?P<name>{_NAME})\s*(?:\[\s*{_NAME}(?:\s*,\s*{_NAME})*\s*\])?\s*"
    rf"(?:{_VERSIONS}|\(\s*{_VERSIONS}\s*\))?\s*"
    r"(?:;(?:(?!\s-)[A-Za-z0-9_ .'\"()<>=!~*+,-])+?)?"
    r"(?:\s+--hash=sha256:[0-9a-f]{64})*\s*"
)
_METADATA = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_CLAUSE = re.compile(r"\s*(~=|==|!=|<=|>=|<|>)\s*([0-9]+(?:\.[0-9]+)*)(\.\*)?\s*")
_COMPARISONS = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_EXAMPLE = "write a name, with versions if you like: 'pandas>=2.2,<3'"


def checked(requirements: Sequence[str]) -> tuple[str, ...]:
    """Return the requirements, sorted and without repetition. Raises ``RequirementError``."""
    if isinstance(requirements, str | bytes) or not _are_texts(requirements):
        raise JobError(f"requirements = {requirements!r:.80}: expected a list such as ['pandas'], or {INLINE!r}")
    if len(requirements) > MOST:
        raise RequirementError(str(len(requirements)), f"there are more than {MOST} requirements", "name fewer")
    for each in requirements:
        if len(each) > LONGEST or _REQUIREMENT.fullmatch(each.strip()) is None:
            shown = each if len(each) < 80 else each[:80] + "..."
            raise RequirementError(
                shown, "this is not a name with versions; URLs, paths and options are refused", _EXAMPLE
            )
    return tuple(sorted({" ".join(each.split()) for each in requirements}))


def _are_texts(values: object) -> bool:
    return isinstance(values, Iterable) and all(isinstance(each, str) for each in values)


def name(requirement: str) -> str:
    """Return the package's name, as the index compares names (PEP 503)."""
    found = _REQUIREMENT.fullmatch(requirement)
    return re.sub(r"[-_.]+", "-", found["name"] if found else requirement).lower()


def inline(source: bytes, version: Sequence[int]) -> tuple[str, ...]:
    """Return the dependencies in the metadata of a script; none if it has no metadata.

    Raises ``RequirementError`` if the metadata cannot be read, or asks for another Python than ``version``.
    """
    data = _metadata(source)
    dependencies, python = data.get("dependencies", []), data.get("requires-python", "")
    if not isinstance(dependencies, list) or not all(isinstance(each, str) for each in dependencies):
        raise _bad(repr(dependencies)[:80], "the script's dependencies are not a list of texts", _EXAMPLE)
    if not isinstance(python, str) or not _satisfies(version, python):
        own = ".".join(map(str, version))
        raise _bad(str(python)[:80], f"the script's requires-python excludes Python {own}", "name another interpreter")
    return checked(dependencies)


def _metadata(source: bytes) -> dict[str, Any]:
    text = source.decode("utf-8", "replace").replace("\r\n", "\n")
    found = [each for each in _METADATA.finditer(text) if each["type"] == "script"]
    if len(found) > 1:
        raise _bad("# /// script", "the script has several blocks of metadata", "leave one of them")
    if not found:
        return {}
    lines = found[0]["content"].splitlines()
    try:
        return tomllib.loads("\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines))
    except ValueError as error:
        raise _bad("# /// script", f"the script's metadata is not TOML: {error}", "see PEP 723") from None


def _satisfies(version: Sequence[int], specifier: str) -> bool:
    return all(_holds(version, clause) for clause in specifier.split(",") if clause.strip())


def _holds(version: Sequence[int], clause: str) -> bool:
    found = _CLAUSE.fullmatch(clause)
    if found is None:
        raise _bad(clause, "the script's requires-python cannot be read", "write it as '>=3.11'")
    comparison, figures, prefix = found[1], tuple(map(int, found[2].split("."))), bool(found[3])
    own = (*version, 0, 0, 0)
    if comparison == "~=":
        return own[: len(figures)] >= figures and own[: len(figures) - 1] == figures[:-1]
    length = len(figures) if prefix else max(len(figures), 3)
    wanted = (*figures, *[0] * (length - len(figures)))
    return bool(_COMPARISONS[comparison](own[:length], wanted))


def _bad(value: str, reason: str, remedy: str) -> RequirementError:
    return RequirementError(value, reason, remedy)
