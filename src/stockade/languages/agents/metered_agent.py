"""Loads the engine of metered scripts, which the caller sends, and runs it.

The sandbox has no files of stockade. So the caller sends the engine's modules: compiled, if this Python reads what the
caller's writes, and else as source. Frames have one byte for the kind and four for the length, as those of every agent.

With arguments, it runs one script instead: the file with the modules; the caps as JSON, by name; the script.
"""

from __future__ import annotations

import base64
import importlib.abc
import importlib.machinery
import importlib.util
import json
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE = 1 << 20


class Modules(importlib.abc.Loader):
    """Imports modules from what the caller sent: whether it is a package, and its content, by name."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known

    def find_spec(self, name: str, *_: Any) -> Any:
        """Return the spec of a module that was sent."""
        if name not in self._known:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=self._known[name][0])

    def create_module(self, spec: Any) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: Any) -> None:
        """Run the module."""
        _, is_compiled, content = self._known[module.__name__]
        code = marshal.loads(base64.b64decode(content)) if is_compiled else compile(content, module.__name__, "exec")
        exec(code, module.__dict__)


def send(kind: bytes, payload: bytes) -> None:
    """Write a frame."""
    data = memoryview(kind + len(payload).to_bytes(4, "big") + payload)
    while data:
        data = data[os.write(1, data) :]


def receive() -> tuple[bytes, bytes]:
    """Return the kind and the payload of the next frame. The caller is gone at the end of the stream."""
    head = _exactly(5)
    return head[:1], _exactly(int.from_bytes(head[1:], "big"))


def _exactly(size: int) -> bytes:
    parts, left = [], size
    while left:
        piece = os.read(0, min(left, _PIECE))
        if not piece:
            os._exit(0)
        parts.append(piece)
        left -= len(piece)
    return b"".join(parts)


def run_once(modules: str, caps: str, script: str) -> None:
    """Run one script and end the process."""
    with open(modules, "rb") as file:
        sys.meta_path.insert(0, Modules(json.load(file)))
    from stockade.embedded.worker.once import Once
    from stockade.languages.agents import python_agent

    Once(json.loads(caps), script, python_agent).run()


def main() -> None:
    """Say which Python this is, take the engine's modules, say when they are loaded, and serve."""
    send(b"h", json.dumps({"magic": importlib.util.MAGIC_NUMBER.hex()}).encode())
    sys.meta_path.insert(0, Modules(json.loads(receive()[1])))
    from stockade.embedded.worker.agent import serve

    send(b"l", b"")
    serve(send, receive)


if sys.argv[1:]:
    run_once(*sys.argv[1:])
else:
    main()
