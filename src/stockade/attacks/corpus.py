"""The corpus as data: each attack is one small file below ``programs/``, with a header of TOML in comments.

The header stands between ``# /// attack`` and ``# ///`` (``//`` in C):

``guarantee``   what it attacks; or ``verdict``: the answer itself
``summary``     what it tries, in a sentence
``reference``   manual page, CVE or commit
``success``     what success looks like
``stage``       what it needs around it, by the names in ``world.py``
``observe``     what is seen from outside, and must be seen after the control and never after the confined run
``needs``       facilities of the host
``policy``      a table: what the policy says beyond the default profile
``control``     a table: ``namespaces`` to make first, ``success`` (see ``trial.py``), ``address``, ``readonly``
``confined``    a table of environment variables that differ in the sandbox
``refusal``     a table: a part of the mechanism's name to the refusal expected under it; ``default`` for the rest
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "programs"
_LANGUAGES = {".py": "python", ".sh": "shell", ".c": "c"}
_COMMENT = {"python": "#", "shell": "#", "c": "//"}


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
    policy: Mapping[str, Any] = field(default_factory=dict)
    control: Mapping[str, Any] = field(default_factory=dict)
    confined: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.guarantee}/{self.name}"

    def refusal_under(self, mechanism: str) -> str:
        """Return the refusal that is expected where ``mechanism`` holds the guarantee."""
        for part, refusal in self.refusal.items():
            if part in mechanism:
                return refusal
        return self.refusal["default"]


def load() -> list[Attack]:
    """Return every attack, by guarantee and name."""
    paths = [path for path in sorted(FOLDER.glob("*/*")) if path.suffix in _LANGUAGES and path.stem != "__init__"]
    return [parse(path) for path in paths]


def parse(path: Path) -> Attack:
    """Return the attack in the file ``path``; raise ``ValueError`` when its header is none."""
    language = _LANGUAGES[path.suffix]
    header = tomllib.loads(_header(path.read_text(encoding="utf-8"), _COMMENT[language], path))
    for name in ("stage", "observe", "needs"):
        header[name] = tuple(header.get(name, ()))
    if header["guarantee"] != path.parent.name:
        raise ValueError(f"{path}: lies in another guarantee's folder")
    if language == "c":
        header["needs"] += ("gcc",)
    return Attack(name=path.stem, language=language, path=path, **header)


def _header(text: str, mark: str, path: Path) -> str:
    lines = text.splitlines()
    try:
        begin = lines.index(f"{mark} /// attack")
        end = lines.index(f"{mark} ///", begin)
    except ValueError:
        raise ValueError(f"{path}: has no header between '{mark} /// attack' and '{mark} ///'") from None
    return "\n".join(line.removeprefix(mark).removeprefix(" ") for line in lines[begin + 1 : end])
