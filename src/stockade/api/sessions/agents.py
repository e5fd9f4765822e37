"""The programs that stockade sends into a sandbox for its sessions, and how they start.

A short command reads the program from its standard input, so it needs no file in the sandbox (ADR 68).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import stockade.languages
from stockade.core.errors import JobError
from stockade.runs.result import Result

_FOLDER = Path(stockade.languages.__file__).parent / "agents"
NODE_FLAGS = ("--v8-pool-size=4",)
_PARTS = {"session_agent.py": ("session_frames.py", "session_processes.py", "session_interpreter.py")}
"""Files that an agent needs before its own."""
_START = (
    "import os\n"
    "def take(size):\n"
    "    data = b''\n"
    "    while len(data) < size:\n"
    "        piece = os.read(0, size - len(data))\n"
    "        if not piece: raise SystemExit\n"
    "        data += piece\n"
    "    return data\n"
    "for _ in take(1)[0] * '.':\n"
    "    exec(compile(take(int.from_bytes(take(4), 'big')), '<stockade agent>', 'exec'))\n"
)


class Input(Protocol):
    """Standard input of an agent."""

    def write(self, data: bytes, timeout: float | None = None) -> object:
        """Write all of ``data``. Raises ``TimeoutError`` or ``OSError``."""

    def close(self) -> None:
        """Close it: the agent ends."""


class Output(Protocol):
    """Standard output of an agent."""

    def read(self, size: int = -1, timeout: float | None = None) -> bytes:
        """Return up to ``size`` bytes, or ``b""`` at the end. Raises ``TimeoutError``."""


class AgentProcess(Protocol):
    """A process of a sandbox, as far as an agent needs one; ``stockade.Process`` is one."""

    @property
    def stdin(self) -> Input:
        """Its standard input."""

    @property
    def stdout(self) -> Output:
        """Its standard output."""

    def kill(self) -> None:
        """End it and its children."""

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for its end and return the verdict."""


def command(python: str) -> tuple[str, ...]:
    """Return the command that starts any agent under this interpreter."""
    return (python, "-I", "-B", "-c", _START)


@cache
def source(name: str) -> str:
    """Return the text of an agent's file."""
    return (_FOLDER / name).read_text()


def introduction(name: str) -> bytes:
    """Return what the command reads first: the number of the agent's files, and each file after its length."""
    files = [source(each).encode() for each in (*_PARTS.get(name, ()), name)]
    return bytes([len(files)]) + b"".join(len(file).to_bytes(4, "big") + file for file in files)


def interpreter_start(
    language: str, executable: str, preload: Sequence[str], functions: Sequence[str] = ()
) -> dict[str, Any]:
    """Return how the session agent starts an interpreter. Raises ``JobError`` for a language without one."""
    if language == "python":
        names = ("cells", "fork", "notebook", *(["functions"] if functions else []))
        agent = [source(f"python_{name}.py") for name in names]
        return {"kind": "python", "agent": agent, "preload": list(preload), "functions": list(functions)}
    if language == "ruby":
        return {"kind": "program", "argv": [executable, "-e", source("ruby_cells.rb")]}
    if language == "javascript":
        argv = [executable, *NODE_FLAGS, "-e", source("node_cells.cjs")]
        return {"kind": "program", "argv": argv, "environment": {"OPENSSL_CONF": "/dev/null"}}
    raise JobError(f"language {language!r} has no interpreter that keeps state; there are python, ruby and javascript")


def shell_start() -> dict[str, Any]:
    """Return how the session agent starts a shell."""
    argv = ["/bin/bash", "--norc", "--noprofile", "--noediting", "-i"]
    return {"kind": "shell", "agent": [source("shell_cells.py")], "argv": argv, "environment": {"PS1": "", "PS2": ""}}
