"""The corpus as data: each attack is one small file below ``programs/``, with a header of TOML in comments.

The header stands between ``# /// attack`` and ``# ///`` (``//`` in C and JavaScript):

``guarantee``   what it attacks; or ``verdict``: the answer itself
``summary``     what it tries, in a sentence
``reference``   manual page, CVE or commit
``success``     what success looks like
``stage``       what it needs around it, by the names in ``stages/``
``observe``     what is seen from outside, and must be seen after the control and never after the confined run
``needs``       facilities of the host, by the names in ``needs.py``
``alone``       true where it measures speed, or its limit counts all that the user runs: no other is tried meanwhile
``policy``      a table: what the policy says beyond the default profile
``artifacts``   patterns of files to bring out when it is over
``control``     a table: ``namespaces`` to make first, ``success`` and ``collector`` (see ``control.py``), ``address``,
                ``readonly``, ``cover`` (a folder to lay an empty file system over), and ``touches``: what it does to
                the host itself, beyond its own throw-away place
``confined``    a table of environment variables that differ in the sandbox
``refusal``     a table: a backend, an isolation or a part of the mechanism's name to the refusal expected under it
                (see ``refusals.py``); ``default`` for the rest
``admitted``    a table: a backend to words in its receipt's note, which say that this attack is not held there

Adding an attack is adding a file. What programs share, sentinel exit codes above all, is in ``programs/kit.*``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "programs"
SUCCEEDED, REFUSED, COULD_NOT_RUN = 42, 43, 44
"""Sentinel exit codes; the same in every kit."""
VERDICT = "verdict"
"""What is attacked where it is no guarantee: the answer itself."""
_LANGUAGES = {".py": "python", ".sh": "shell", ".c": "c", ".rb": "ruby", ".js": "javascript"}
_COMMENT = {"python": "#", "shell": "#", "c": "//", "ruby": "#", "javascript": "//"}
_NEEDED = {"c": "cc", "ruby": "ruby", "javascript": "node"}


@dataclass(frozen=True)
class Attack:
    """One attack."""

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
        """What it is asked for by."""
        return f"{self.guarantee}/{self.name}"

    @property
    def kit(self) -> Path | None:
        """The file that must lie beside the program."""
        path = FOLDER / f"kit{self.path.suffix}"
        return path if self.language in {"python", "ruby", "javascript"} else None

    def is_called(self, word: str) -> bool:
        """Return whether ``word`` names this attack, or its guarantee."""
        return word in {self.guarantee, self.id, self.name}

    def refusal_under(self, mechanism: str, *names: str) -> str:
        """Return the refusal that is expected where ``mechanism`` holds the guarantee.

        ``names`` (the backend's, its isolation's) come first.
        """
        for name in names:
            if name in self.refusal:
                return self.refusal[name]
        for part, refusal in self.refusal.items():
            if part in mechanism:
                return refusal
        return self.refusal["default"]


def load() -> list[Attack]:
    """Return every attack, by guarantee and name."""
    return [parse(path) for path in sorted(FOLDER.glob("*/*")) if path.suffix in _LANGUAGES]


def parse(path: Path) -> Attack:
    """Return the attack in the file ``path``; raise ``ValueError`` when its header is none."""
    language = _LANGUAGES[path.suffix]
    header = tomllib.loads(_header(path.read_text(encoding="utf-8"), _COMMENT[language], path))
    for name in ("stage", "observe", "needs", "artifacts"):
        header[name] = tuple(header.get(name, ()))
    if header["guarantee"] != path.parent.name:
        raise ValueError(f"{path}: lies in another guarantee's folder")
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
        raise ValueError(f"{path}: has no header between '{mark} /// attack' and '{mark} ///'") from None
    return "\n".join(line.removeprefix(mark).removeprefix(" ") for line in lines[begin + 1 : end])
