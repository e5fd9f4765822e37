"""Runs cells of Python, one after another in one namespace. The session agent loads it in a process of its own.

Everything here shares its process with the guest's code, so nobody may trust what it sends. See ``session_agent.py``
for the frames. Python 3.8 or newer, standard library only.
"""

from __future__ import annotations

import _thread
import ast
import base64
import json
import linecache
import os
import signal
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, NoReturn

    from stockade.languages.agents.python_fork import fork
    from stockade.languages.agents.python_notebook import translate

_LONGEST_TEXT = 64 * 1024
_SOURCES_KEPT = 512 * 1024
"""Characters of cells that tracebacks can show; the oldest cells are forgotten first."""
_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_COROUTINE = 0x80  # inspect.CO_COROUTINE
_OWN = "<stockade>"
_BINARY = ("image/png", "image/jpeg", "application/pdf")
_REPRS = {
    "html": "text/html", "markdown": "text/markdown", "svg": "image/svg+xml", "png": "image/png",
    "jpeg": "image/jpeg", "pdf": "application/pdf", "latex": "text/latex", "json": "application/json",
    "javascript": "application/javascript",
}  # fmt: skip


class Cells:
    """The namespace of an interpreter, and what a cell may do to it."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing, self.pid = reading, writing, os.getpid()
        self.lock, self.thread = _thread.allocate_lock(), _thread.get_ident()
        self.running = self.pending = False
        self.count = 0
        self.flags = _AWAIT
        self.sources: dict[str, int] = {}
        self.loop: Any = None
        self.old_loops: list[Any] = []
        self.functions: Any = None  # of the caller, if there are some
        self.shown: set[int] = set()
        self.display_bytes = 0
        self.module = type(sys)("__main__")
        self.space: dict[str, Any] = vars(self.module)
        self.space.update({"__builtins__": __builtins__, "__annotations__": {}})

    def serve(self) -> NoReturn:
        """Run cells for ever."""
        sys.modules["__main__"] = self.module
        sys.argv[:] = [""]
        sys.path.insert(0, "")
        self.space["display"] = self.display
        sys.stdin = sys.__stdin__ = stream(0, "r")  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = stream(1, "w")  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = stream(2, "w")  # type: ignore[misc]
        self.greet()
        while True:
            signal.signal(signal.SIGINT, self.interrupted)
            request = json.loads(self.request())
            try:
                try:
                    self.cell(request)
                except KeyboardInterrupt as error:  # it came after the cell's own code
                    self.running = False
                    self.error(error)
            except KeyboardInterrupt:
                pass
            self.running = self.pending = False
            if os.getpid() != self.pid:
                os._exit(0)  # a child that the cell forked has come to the end of the cell
            self.flush()
            self.write(b".", request["token"].encode())

    def greet(self) -> None:
        """Tell the agent that cells can come."""
        self.send(b"h", {"version": "{}.{}.{}".format(*sys.version_info[:3])})

    def interrupted(self, *_: Any) -> None:
        """End the running cell, but not in the middle of a frame."""
        self.pending = self.running and os.getpid() == self.pid
        if self.pending and not self.lock.locked():
            self.pending = False
            raise KeyboardInterrupt

    def read(self, size: int) -> bytes:
        """Read from the agent."""
        data = b""
        while len(data) < size:
            piece = os.read(self.reading, size - len(data))
            if not piece:
                os._exit(0)
            data += piece
        return data

    def request(self) -> bytes:
        """Return the next request for a cell; fork if that is asked for.

        An answer to a display is skipped: an interrupt ended the cell that waited for it.
        """
        while True:
            head = self.read(5)
            payload = self.read(int.from_bytes(head[1:], "big"))
            if head[:1] == b"R":
                return payload
            if head[:1] == b"F":
                fork(self)

    def write(self, kind: bytes, payload: bytes, *, answered: bool = False) -> None:
        """Send a frame, and wait for the agent's answer if it has one."""
        view = memoryview(kind + len(payload).to_bytes(4, "big") + payload)

        def whole() -> None:
            at = 0
            while at < len(view):
                at += os.write(self.writing, view[at:])
            if answered:
                self.read(5)

        self.uninterrupted(whole)

    def uninterrupted(self, action: Callable[[], None]) -> None:
        """Do something in one piece. An interrupt comes after it."""
        with self.lock:
            action()
        if self.pending:
            self.pending = False
            raise KeyboardInterrupt

    def send(self, kind: bytes, value: Any) -> None:
        """Send a frame of JSON."""
        self.write(kind, json.dumps(value).encode())

    def flush(self) -> None:
        """Write what the interpreter's streams still hold, even if the guest replaced them."""
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                stream.flush()  # type: ignore[union-attr]
            except Exception:
                continue

    def cell(self, request: dict[str, Any]) -> None:
        """Run one cell and send its value or error."""
        self.count += 1
        self.pending = False
        self.shown.clear()
        self.display_bytes = request["limits"]["display_bytes"]
        name, source = f"<cell {self.count}>", request["source"]
        self.remember(name, source)
        self.running = True
        try:
            self.write(b"r", b"")
            value, quiet = self.execute(source, name)
            if value is not None and not quiet:
                self.space["_"] = value
                self.value(value)
            self.figures()
        except BaseException as error:
            self.running = False
            self.error(error)

    def remember(self, name: str, source: str) -> None:
        """Let tracebacks show the lines of this cell."""
        self.sources[name] = len(source)
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        while sum(self.sources.values()) > _SOURCES_KEPT or len(self.sources) > 500:
            oldest = next(iter(self.sources))
            del self.sources[oldest]
            linecache.cache.pop(oldest, None)

    def execute(self, source: str, name: str) -> tuple[Any, bool]:
        """Run the source; return the value of a last expression, and whether a semicolon silences it."""
        source = translate(source)
        tree = ast.parse(source, name)
        last: Any = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if tree.body:
            self.evaluate(compile(tree, name, "exec", self.flags, True))
        if last is None:
            return None, True
        code = compile(ast.Expression(last.value), name, "eval", self.flags, True)
        return self.evaluate(code), source.rstrip().endswith(";")

    def evaluate(self, code: CodeType) -> Any:
        """Run code; wait for it if it awaits something at the top level."""
        self.flags |= code.co_flags & 0x1FFF000  # a __future__ import holds for later cells
        value = eval(code, self.space)
        if not code.co_flags & _COROUTINE:
            return value
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(value)
        try:
            return self.loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            self.loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            raise

    def value(self, value: Any) -> None:
        """Send the value of a last expression."""
        data = self.representations(value)
        text = data.get("text/plain", "")
        self.send(b"v", {"repr": text[:_LONGEST_TEXT], "data": data})

    def display(self, *values: Any, raw: bool = False, **_options: Any) -> None:
        """Show values as a notebook does: with the richest form that each has."""
        for value in values:
            data = {"data": checked(value) if raw else self.representations(value)}
            self.flush()
            # the cell waits for the agent: so no output overtakes a display, and no display the output before it
            waits = self.running and os.getpid() == self.pid and _thread.get_ident() == self.thread
            self.write(b"D" if waits else b"d", json.dumps(data).encode(), answered=waits)

    def representations(self, value: Any) -> dict[str, Any]:
        """Return the forms of a value by MIME type, within the cell's limit; bytes as base64."""
        try:
            text = repr(value)
        except Exception as error:
            text = f"<repr failed: {describe(error)}>"
        data = {"text/plain": text[:_LONGEST_TEXT]}
        if isinstance(value, type):
            return data
        data.update(checked(ask(value, "_repr_mimebundle_") or {}))
        for name, kind in _REPRS.items():
            found = ask(value, f"_repr_{name}_")
            if found is not None:
                data.update(checked({kind: found[0] if isinstance(found, tuple) else found}))
        if type(value).__module__.startswith("matplotlib.") and hasattr(value, "savefig"):
            self.shown.add(id(value))
            data.update(checked({"image/png": picture(value)}))
        while len(data) > 1 and len(json.dumps(data)) > self.display_bytes:
            del data[max(data, key=lambda kind: len(str(data[kind])))]
            data["text/plain"] = text[:1000] + " (a larger form of it is over the limit of a cell)"
        return data

    def figures(self) -> None:
        """Show the figures that the cell left open, and close them."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if id(figure) not in self.shown and figure.get_axes():
                self.display(figure)
        pyplot.close("all")

    def error(self, error: BaseException) -> None:
        """Send an error with the frames of the guest's own code."""
        try:
            lines, message = formatted(error), str(error)
        except BaseException as other:
            lines, message = "", f"<{type(other).__name__} while its text was made>"
        name = str(type(error).__name__)
        report = {"type": name, "message": message[:_LONGEST_TEXT], "traceback": lines[-_LONGEST_TEXT:]}
        self.send(b"x", report)
        error.with_traceback(None)


def stream(fd: int, mode: str) -> Any:
    """Return a text stream over a descriptor: those of the agent were made for other files."""
    return open(fd, mode, buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def formatted(error: BaseException) -> str:
    """Return a traceback without the frames of this file, and without those before the first of a cell."""
    whole = traceback.TracebackException(type(error), error, error.__traceback__)
    each: Any = whole
    for _ in range(20):  # the errors that it came from
        if each is None:
            break
        each.stack[:] = [frame for frame in each.stack if frame.filename != _OWN]
        each = each.__cause__ or each.__context__
    first = next((at for at, frame in enumerate(whole.stack) if frame.filename.startswith("<cell ")), 0)
    del whole.stack[:first]
    return "".join(whole.format())


def ask(value: Any, name: str) -> Any:
    """Return what a method of ``value`` returns, or ``None`` if ``value`` lacks it or it fails."""
    try:
        method = getattr(value, name, None)
        return method() if callable(method) else None
    except Exception:
        return None


def checked(data: Any) -> dict[str, Any]:
    """Return those of ``data`` that a frame can carry."""
    if isinstance(data, tuple):
        data = data[0]
    found: dict[str, Any] = {}
    for kind, content in data.items() if isinstance(data, dict) else ():
        if isinstance(content, (bytes, bytearray)):
            found[str(kind)] = base64.b64encode(content).decode()
        elif isinstance(content, str):
            found[str(kind)] = content
        else:
            try:
                found[str(kind)] = json.loads(json.dumps(content))
            except (TypeError, ValueError, RecursionError):
                continue
    return found


def picture(figure: Any) -> bytes:
    """Return a figure as PNG."""
    import io

    target = io.BytesIO()
    figure.savefig(target, format="png", bbox_inches="tight")
    return target.getvalue()


def describe(error: BaseException) -> str:
    """Return the type and the message of an error."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
