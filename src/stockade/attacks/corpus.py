"""The attack corpus as data: each attack is one small file below ``programs/``, with a TOML header in comments.

The header stands between ``# /// attack`` and ``# ///`` (``//`` in C and JavaScript):

``guarantee``   the guarantee under attack; ``verdict`` if the attack is on the answer itself
``summary``     the attempt, in a sentence
``reference``   manual page, CVE or commit
``success``     how success looks
``stage``       the stages that the attack needs, by the names in ``stages/``
``observe``     observations from outside; each must come true after the control run, and never after the confined run
``needs``       facilities of the host, by the names in ``needs.py``
``alone``       true if no other attack may run meanwhile: it measures speed, or its limit counts the user's processes
``policy``      a table: the fields that differ from the default profile
``artifacts``   patterns of files to collect after the run
``control``     a table: ``namespaces`` to make first, ``success`` and ``collector`` (see ``control.py``), ``address``,
                ``readonly``, ``cover`` (a folder to mount an empty file system over), and ``touches``: the effects on
                the host itself, outside the enclosure
``confined``    a table: environment variables that differ in the sandbox
``refusal``     a table: from a backend, an isolation or a part of the mechanism's name to the refusal expected there
                (see ``refusals.py``); ``default`` for all others
``admitted``    a table: from a backend to text of its receipt's note, which says that this attack is not held there

To add an attack, add a file. Code that programs share, above all the sentinel exit codes, is in ``programs/kit.*``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "programs"
SUCCEEDED, REFUSED, COULD_NOT_RUN = 42, 43, 44
"""Sentinel exit codes. Every kit uses the same."""
VERDICT = "verdict"
"""The ``guarantee`` of attacks on the answer itself."""
_LANGUAGES = {".py": "python", ".sh": "shell", ".c": "c", ".rb": "ruby", ".js": "javascript"}
_COMMENT = {"python": "#", "shell": "#", "c": "//", "ruby": "#", "javascript": "//"}
_NEEDED = {"c": "cc", "ruby": "ruby", "javascript": "node"}


@dataclass(frozen=True)
class Attack:
    """An attack of the corpus. The fields are those of its header."""

    name: str
    language: str
    path: Path
    guarantee: str
    summary: str
    reference: str
    success: str
    refusal: Mapping[str, str]
    stage: tuple[str, ...] = ()
    observe: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    alone: bool = False
    artifacts: tuple[str, ...] = ()
    policy: Mapping[str, Any] = field(default_factory=dict)
    control: Mapping[str, Any] = field(default_factory=dict)
    confined: Mapping[str, str] = field(default_factory=dict)
    admitted: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name on the command line: guarantee and file."""
        return f"{self.guarantee}/{self.name}"

    @property
    def kit(self) -> Path | None:
        """The file that must be in the same folder as the program, if there is one."""
        path = FOLDER / f"kit{self.path.suffix}"
        return path if self.language in {"python", "ruby", "javascript"} else None

    def is_called(self, name: str) -> bool:
        """Return whether ``name`` is the name of this attack or of its guarantee."""
        return name in {self.guarantee, self.id, self.name}

    def refusal_under(self, mechanism: str, *names: str) -> str:
        """Return the expected refusal if ``mechanism`` holds the guarantee.

        ``names``, those of the backend and of its isolation, take precedence.
        """
        for name in names:
            if name in self.refusal:
                return self.refusal[name]
        for part, refusal in self.refusal.items():
            if part in mechanism:
                return refusal
        return self.refusal["default"]


def load() -> list[Attack]:
    """Return every attack, sorted by guarantee and name."""
    return [parse(path) for path in sorted(FOLDER.glob("*/*")) if path.suffix in _LANGUAGES]


def parse(path: Path) -> Attack:
    """Return the attack in the file ``path``; raise ``ValueError`` if its header is invalid."""
    language = _LANGUAGES[path.suffix]
    header = tomllib.loads(_header(path.read_text(encoding="utf-8"), _COMMENT[language], path))
    for name in ("stage", "observe", "needs", "artifacts"):
        header[name] = tuple(header.get(name, ()))
    if header["guarantee"] != path.parent.name:
        raise ValueError(f"{path}: the folder is not that of its guarantee, {header['guarantee']}")
    if language in _NEEDED:
        header["needs"] += (_NEEDED[language],)
    try:
        return Attack(name=path.stem, language=language, path=path, **header)
    except TypeError as error:
        raise ValueError(f"{path}: {error}") from None


def _header(text: str, mark: str, path: Path) -> str:
    lines = text.splitlines()
    try:
        begin = lines.index(f"{mark} /// attack")
        end = lines.index(f"{mark} ///", begin)
    except ValueError:
        raise ValueError(f"{path}: no header between '{mark} /// attack' and '{mark} ///'") from None
    return "\n".join(line.removeprefix(mark).removeprefix(" ") for line in lines[begin + 1 : end])
