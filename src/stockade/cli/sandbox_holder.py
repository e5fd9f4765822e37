"""The process that keeps a sandbox with a name, until it is closed or ends. It also keeps the forks of that sandbox."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stockade.cli import sandbox_socket
from stockade.core.errors import JobError, PolicyError, SandboxClosed, StockadeError

if TYPE_CHECKING:
    from stockade.api.process import Process, ProcessOutput
    from stockade.api.sandbox import Sandbox

_LOOK_SECONDS = 2.0
_AGAIN_SECONDS = 0.1
_REQUEST_SECONDS = 10.0
_LAST_SECONDS = 30.0
"""Clients get so long to take their last answer."""
_STREAM_SECONDS = 0.5
_PIECE = 1 << 16


class Holder:
    """Serves sandboxes by their names."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[Sandbox, socket.socket, float]] = {}

    def add(self, name: str, sandbox: Sandbox, listener: socket.socket) -> None:
        """Serve ``sandbox`` under a name, for which ``listener`` listens."""
        with self._lock:
            self._held[name] = sandbox, listener, time.time()

    def serve(self) -> None:
        """Serve until every sandbox has ended."""
        threading.Thread(target=self._watch, daemon=True).start()
        clients: list[threading.Thread] = []
        while held := dict(self._held):
            listeners = {listener: name for name, (_, listener, _) in held.items()}
            try:
                for listener in select.select(list(listeners), [], [], _LOOK_SECONDS)[0]:
                    sock, _ = listener.accept()
                    client = threading.Thread(target=self._answer, args=(sock, listeners[listener]), daemon=True)
                    client.start()
                    clients = [*(each for each in clients if each.is_alive()), client]
            except (OSError, ValueError):  # a listener was closed meanwhile, or no descriptor is free
                time.sleep(_AGAIN_SECONDS)
        until = time.monotonic() + _LAST_SECONDS
        for each in clients:  # one of them has closed the last sandbox
            each.join(max(0.0, until - time.monotonic()))

    def _watch(self) -> None:
        """Remove sandboxes that have ended. A look may wait for a fork or a snapshot."""
        while True:
            time.sleep(_LOOK_SECONDS)
            for name, (sandbox, _, _) in dict(self._held).items():
                if _has_ended(sandbox):
                    self._remove(name)

    def _remove(self, name: str) -> None:
        with self._lock:
            sandbox, listener, _ = self._held.pop(name, (None, None, None))
        if sandbox is not None and listener is not None:
            sandbox_socket.forget(name)
            listener.close()
            sandbox.close()

    def _answer(self, sock: socket.socket, name: str) -> None:
        with sock:
            sock.settimeout(_REQUEST_SECONDS)
            try:
                request, fds = sandbox_socket.receive(sock)
            except (OSError, ValueError):
                return
            sock.settimeout(None)
            try:
                sandbox_socket.answer(sock, self._do(request, name, fds, sock))
            except (StockadeError, OSError) as error:
                usage = isinstance(error, JobError | PolicyError | OSError)
                sandbox_socket.answer(sock, {"error": _sentence(error), "usage": usage})
            finally:
                for fd in fds:
                    os.close(fd)

    def _do(self, request: dict[str, Any], name: str, fds: list[int], sock: socket.socket) -> dict[str, Any]:
        operation, held = request.pop("operation"), self._held.get(name)
        if held is None:
            raise SandboxClosed("the sandbox was closed")
        sandbox, _, began = held
        if operation == "show":
            memory = sandbox.usage().memory
            return {"id": sandbox.id, "seconds": time.time() - began, "memory": memory, "holder": os.getpid()}
        if operation == "close":
            self._remove(name)
            return {}
        if operation == "fork":
            return self._fork(sandbox, **request)
        call: Callable[..., dict[str, Any]] = _OPERATIONS[operation]
        return call(sandbox, fds, sock, **request)

    def _fork(self, sandbox: Sandbox, twin: str) -> dict[str, Any]:
        listener = sandbox_socket.listen(sandbox_socket.checked_name(twin))
        try:
            made = sandbox.fork()
        except BaseException:
            sandbox_socket.forget(twin)
            listener.close()
            raise
        self.add(twin, made, listener)
        return {"id": made.id}


def _sentence(error: StockadeError | OSError) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _has_ended(sandbox: Sandbox) -> bool:
    try:
        sandbox.usage()
    except SandboxClosed:
        return True
    return False


def _run(
    sandbox: Sandbox, fds: list[int], sock: socket.socket, *, argv: list[str], interactive: bool, **how: Any
) -> dict[str, Any]:
    """Run a command on the client's own streams. It ends with the client."""
    from stockade.cli.receipt import status

    with sandbox.start_command(argv, stdin="pipe" if interactive else "none", **how) as process:
        threading.Thread(target=_end_with, args=(sock, process), daemon=True).start()
        pumps = [
            threading.Thread(target=_pass_on, args=(process, stream, fd), daemon=True)
            for stream, fd in ((process.stdout, fds[1]), (process.stderr, fds[2]))
        ]
        if interactive:
            pumps.append(threading.Thread(target=_feed, args=(process, fds[0]), daemon=True))
        for each in pumps:
            each.start()
        for each in pumps:
            each.join()
        result = process.wait()
    sock.shutdown(socket.SHUT_RD)
    shown = result.error.message if result.error is not None else ""
    if not shown and result.outcome.value in ("limit_exceeded", "crashed"):
        shown = result.summary()
    return {"status": status(result), "message": shown}


def _end_with(sock: socket.socket, process: Process) -> None:
    """End a command if its client goes away. The end of the command ends the wait."""
    with suppress(OSError):
        sock.recv(1)
    process.kill()


def _pass_on(process: Process, stream: ProcessOutput, fd: int) -> None:
    try:
        while data := stream.read(_PIECE):
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
    except OSError:  # the reader is gone
        process.kill()


def _feed(process: Process, fd: int) -> None:
    """Pass the client's standard input on, until its end or that of the command."""
    with suppress(OSError):
        while process.poll() is None:
            if not select.select([fd], [], [], _STREAM_SECONDS)[0]:
                continue
            data = os.read(fd, _PIECE)
            if not data:
                break
            process.stdin.write(data)
    process.stdin.close()


def _list(sandbox: Sandbox, _fds: list[int], _sock: socket.socket, *, path: str) -> dict[str, Any]:
    found = sandbox.files.list(path)
    return {"files": [{"path": each.path, "kind": each.kind, "size": each.size} for each in found]}


def _read(sandbox: Sandbox, fds: list[int], _sock: socket.socket, *, path: str) -> dict[str, Any]:
    with open(fds[1], "wb", closefd=False) as out:
        out.write(sandbox.files.read_bytes(path))
    return {}


def _write(sandbox: Sandbox, fds: list[int], _sock: socket.socket, *, path: str) -> dict[str, Any]:
    from stockade.api.sessions.files import LONGEST_FILE

    with open(fds[0], "rb", closefd=False) as source:
        sandbox.files.write(path, source.read(LONGEST_FILE + 1))
    return {}


def _snapshot(
    sandbox: Sandbox, _fds: list[int], _sock: socket.socket, *, label: str | None, folder: str | None
) -> dict[str, Any]:
    made = sandbox.snapshot(label, folder=folder)
    return {"id": made.id, "path": str(made.path)}


_OPERATIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "run": _run,
    "list": _list,
    "read": _read,
    "write": _write,
    "snapshot": _snapshot,
}
