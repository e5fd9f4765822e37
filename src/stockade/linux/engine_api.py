"""Speak with a container engine: one request of its HTTP interface over a Unix socket.

The requests are HTTP/1.0, so the answer is neither chunked nor kept alive, and its end is the end of the connection
(RFC 1945). Docker and podman both answer them. The path has no version: an engine takes its own newest one then.
"""

from __future__ import annotations

import _socket as socket
import errno
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST = 16 << 20
_CHUNK = 1 << 16


class EngineError(Exception):
    """The engine refused a request, or did not answer. ``status`` is 0 if it did not answer.

    ``remedy`` says what a user can do, where the reason alone decides it.
    """

    def __init__(self, message: str, status: int = 0, remedy: str = "") -> None:
        super().__init__(message)
        self.status, self.remedy = status, remedy


def ask(path: str, method: str, target: str, body: Any = None, *, seconds: float = 30.0) -> Any:
    """Send one request to the engine behind the socket ``path``; return its answer, decoded, or ``None``.

    ``body`` becomes JSON, unless it is ``bytes``: those are sent as they are. Raises ``EngineError`` with the engine's
    own words for a status of 400 or more, or if the whole takes longer than ``seconds``.
    """
    import json  # neither the warden nor a guest's own process needs it

    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "application/x-tar" if isinstance(body, bytes) else "application/json"
    head = (
        f"{method} {target} HTTP/1.0\r\nHost: engine\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    try:
        status, answer = _parsed(_exchange(path, head.encode() + content, time.monotonic() + seconds))
    except OSError as error:
        raise EngineError(f"{path}: {_reason(error, seconds)}") from None
    except (ValueError, IndexError):
        raise EngineError(f"{path}: the answer is not HTTP; this is the socket of another program") from None
    if status >= 400:
        raise EngineError(f"{path}: {_message(answer)}", status)
    try:
        return json.loads(answer) if answer.strip() else None
    except ValueError:
        return answer  # a stream of messages: pulling an image answers with one a line


def _exchange(path: str, data: bytes, deadline: float) -> bytes:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        _wait_at_most(sock, deadline)
        sock.connect(path)
        sock.sendall(data)
        parts: list[bytes] = []
        size = 0
        while True:
            _wait_at_most(sock, deadline)
            part = sock.recv(_CHUNK)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > _MOST:
                raise OSError(errno.EMSGSIZE, f"the answer has more than {_MOST >> 20} MiB")
    finally:
        sock.close()


def _wait_at_most(sock: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)


def _parsed(answer: bytes) -> tuple[int, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    version, status = head.split(b" ", 2)[:2]
    if not version.startswith(b"HTTP/1."):
        raise ValueError
    return int(status), body


def _message(answer: bytes) -> str:
    import json

    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.decode("utf-8", "replace").strip()[:300] or "the engine gave no reason"


def _reason(error: OSError, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"the engine did not answer within {seconds:g} s"
    if error.errno == errno.ENOENT:
        return "there is no such socket"
    if error.errno == errno.ECONNREFUSED:
        return "no engine listens there"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "this user may not connect to it"
    return error.strerror or os.strerror(error.errno or 0)
