"""The engine's modules as one message, for a sandbox that has no files of stockade."""

from __future__ import annotations

import base64
import json
import marshal
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import stockade.languages

_EMBEDDED = Path(__file__).parents[1]
_NAME = "stockade.embedded"
_FILES = (
    "engine.py", "sink.py", "endings.py", "worker/codec.py", "worker/messages.py", "worker/agent.py", "worker/once.py",
)  # fmt: skip
_REPORTER = "stockade.languages.agents.python_agent"
_REPORTER_FILE = Path(stockade.languages.__file__).parent / "agents" / "python_agent.py"
_PACKAGES = ("boundary", "weave")


@cache
def modules_message(*, compiled: bool) -> bytes:
    """Return all modules by name, each as whether it is a package, whether it is compiled, and its content."""
    known: dict[str, Any] = dict.fromkeys(("stockade", _NAME, f"{_NAME}.worker"), (True, False, ""))
    folders = (sorted((_EMBEDDED / folder).rglob("*.py")) for folder in _PACKAGES)
    for path in (*(_EMBEDDED / name for name in _FILES), *(path for found in folders for path in found)):
        parts = path.relative_to(_EMBEDDED).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join((_NAME, *(parts[:-1] if is_package else parts)))
        known[name] = _content(name, path, compiled=compiled, is_package=is_package)
    known |= dict.fromkeys(("stockade.languages", "stockade.languages.agents"), (True, False, ""))
    known[_REPORTER] = _content(_REPORTER, _REPORTER_FILE, compiled=compiled)
    return json.dumps(known).encode()


def _content(name: str, path: Path, *, compiled: bool, is_package: bool = False) -> tuple[bool, bool, str]:
    return is_package, compiled, _compiled(name, path) if compiled else path.read_text("utf-8")


def _compiled(name: str, path: Path) -> str:
    code = SourceFileLoader(name, str(path)).get_code(name)
    return base64.b64encode(marshal.dumps(code)).decode()
