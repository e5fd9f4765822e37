"""Lets cells of Python call functions of the caller. Loaded beside ``python_cells.py`` if an interpreter has some.

A call is a frame ``c`` to the agent. The answer comes over a pipe of its own, so that it cannot be taken for a cell.
Python 3.8 or newer, standard library only.
"""

from __future__ import annotations

import _thread
import json
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stockade.languages.agents.python_cells import Cells

_PIECE = 64 * 1024
_LOOK_SECONDS = 0.5


class HostError(RuntimeError):
    """A function of the caller failed, or the call cannot be made."""


HostError.__module__ = "builtins"  # so a traceback shows the bare name


class Functions:
    """Sends calls to the caller, one at a time, and waits for the answers."""

    def __init__(self, cells: Cells, reading: int, names: list[str]) -> None:
        self.cells, self.reading, self.number = cells, reading, 0
        self.turn = _thread.allocate_lock()
        self.buffer = bytearray()
        cells.functions = self
        cells.space["HostError"] = HostError
        for name in names:
            cells.space[name] = self.function(name)

    def listen_at(self, reading: int) -> None:
        """Take answers from another pipe: this process is a fork of the interpreter."""
        os.dup2(reading, self.reading, inheritable=False)
        self.turn = _thread.allocate_lock()
        self.buffer.clear()

    def function(self, name: str) -> Any:
        """Return the function that calls the caller's function ``name``."""

        def function(*args: Any, **kwargs: Any) -> Any:
            return self.call(name, args, kwargs)

        function.__name__ = function.__qualname__ = name
        function.__doc__ = "A function outside of the sandbox. It takes and returns plain data."
        return function

    def call(self, name: str, args: Any, kwargs: Any) -> Any:
        """Call a function of the caller."""
        cells = self.cells
        if os.getpid() != cells.pid:
            raise HostError(f"{name}(): only the interpreter's own process can call it, and not a child")
        cell = cells.count
        with self.turn:
            self.number += 1
            request = {"number": self.number, "name": name, "args": args, "kwargs": kwargs}
            try:
                data = json.dumps(request, allow_nan=False).encode()
            except (TypeError, ValueError, RecursionError) as error:
                raise TypeError(f"{name}() takes plain data: {error}") from None
            if len(data) > cells.display_bytes:
                raise HostError(f"{name}() is passed {len(data)} bytes, and {cells.display_bytes} is the most")
            cells.write(b"c", data)
            answer = self.answer(name, cell)
        if "error" in answer:
            raise HostError(answer["error"])
        return answer["value"]

    def answer(self, name: str, cell: int) -> dict[str, Any]:
        """Return the answer to the last call; forget answers to calls that were interrupted."""
        while True:
            found: dict[str, Any] = json.loads(self.frame(name, cell))
            if found["number"] == self.number:
                return found

    def frame(self, name: str, cell: int) -> bytes:
        """Return the next payload. An interrupt while it waits loses no byte of a later one."""
        while True:
            end = 4 + int.from_bytes(self.buffer[:4], "big")
            if len(self.buffer) >= max(end, 5):
                payload = bytes(self.buffer[4:end])
                del self.buffer[:end]
                return payload
            if select.select((self.reading,), (), (), _LOOK_SECONDS)[0]:
                self.cells.uninterrupted(self.fill)
            elif self.cells.count != cell:
                raise HostError(f"{name}(): the cell that called it has ended")

    def fill(self) -> None:
        """Read what the pipe holds."""
        self.buffer += os.read(self.reading, _PIECE)
