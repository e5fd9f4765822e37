"""The wire protocol between a caller and its warden, without any I/O: bytes in, messages out.

A frame is a big-endian 32-bit length and a message, ``(kind, fields)``, as ``marshal`` writes it (version 4). Both
ends are the same interpreter, and a message holds bytes of a guest only as ``bytes`` objects. The control socket
carries one byte for each new run. The run's own socket comes with the byte, as a descriptor. If the run has secrets or
may ask about names, a second descriptor comes for its proxy. If it connects to a port, one comes for the socket.
Every message about a run goes over the run's socket.

Caller to warden: ``launch`` (the launch, without fields that equal the last launch over the same socket), ``stdin``
(data; empty data is the end), ``signal`` (number), ``pause``, ``resume``, ``ping``, ``taken`` (stream, count: bytes of
a live stream that the caller has read), ``resize`` (number), ``hang_up``, ``usage`` (asks for one report), ``touch``
(the caller uses the sandbox).
A caller that shuts down its direction of a run's socket cancels the run, whatever it sent before.
Warden to caller: ``hello`` (facts, once, on the control socket) or ``failed`` (message), ``started``,
``output`` (stream, at, data), ``limit`` (guarantee, state, used, figure), ``usage`` (readings, every
``report_seconds`` of the launch), ``fed`` (count: bytes of standard input that have left the warden), ``collected``
(data: records of the collector), ``exited`` (report, notes), ``refused`` (message: the sandbox failed), ``pong`` (to
``ping``), ``waiting`` and ``accepted``.

The warden accepts a launch by reading it whole. If it answers ``waiting``, it accepts by a later ``accepted``, before
the guest gets anything. A launch that a lost warden has not accepted has not begun, and may be sent to another warden.
"""

from __future__ import annotations

import marshal
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from stockade.core.launch import Launch, TemplateFields

    Message = tuple[str, dict[str, Any]]

_LENGTH = struct.Struct(">I")
HEAD = _LENGTH.size
"""The bytes of a frame before its message."""
_MARSHAL_VERSION = 4
MAX_FRAME = 1 << 30
NEW_RUN = b"R"
PROCESS_NAME = "stockade-warden"
"""The kernel's name for a warden and processes forked from it (proc(5), ``comm``). It identifies even a zombie."""
FORK_WARMED_UP, FORK_AT_ONCE = b"L", b"H"
"""Requests to a worker to fork another guest: one that warms up first, or one at once while all processors are busy."""
COMPLETION_MARKER = b"\0stockade\0"
"""The bytes that a warm guest writes to its channel when it is done, before one byte with its exit status. An agent's
report never contains NUL, and no other program writes these bytes by accident."""
SANDBOX_ENDED = "the sandbox has ended"
"""The begin of the answer to an exec whose living instance is gone."""
PAUSED = "the sandbox is paused: call resume() first"
"""The answer to an exec of a paused instance."""
SET_TEMPLATE = b"F"
"""The prefix of a launch template that a worker's next guests most likely get."""


class WireError(Exception):
    """The other side sent invalid bytes."""


def encode(kind: str, **fields: Any) -> bytes:
    """Return one frame. Values are ``None``, booleans, numbers, text, bytes, and lists and mappings of these."""
    body = marshal.dumps((kind, fields), _MARSHAL_VERSION)
    return _LENGTH.pack(len(body)) + body


def order(launch: Launch) -> bytes:
    """Return the message that hands ``launch`` to the process that waits in an instance."""
    about = {"argv": launch.argv, "environment": launch.environment, "channel": launch.channel}
    if launch.sandbox:
        about |= {"folder": launch.folder, "files": launch.stdio.files, "port": launch.port}
    return encode("launch", steps=launch.whole_steps, trace=launch.trace, **about)


def start_exec(kept: int) -> bytes:
    """Return the message that asks the init of a living instance for an exec. ``kept`` descriptors come with it."""
    return encode("start_exec", fds=kept)


def template_message(template: TemplateFields) -> bytes:
    """Return the message that gives a worker the launch ``template``; ``SET_TEMPLATE`` precedes it."""
    argv, environment, channel, steps = template
    return encode("template", argv=argv, environment=environment, channel=channel, steps=steps)


def source_message(source: bytes, trace: int) -> bytes:
    """Return the message that hands over a launch that differs from the worker's template only in its source."""
    return encode("source", source=source, trace=trace)


def length(head: bytes) -> int:
    """Return the length of the message behind ``head``. Raises ``WireError`` if the head is incomplete."""
    if len(head) != HEAD:
        raise WireError("the frame is cut off")
    return int(_LENGTH.unpack(head)[0])


class Decoder:
    """Decodes bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add ``data``, and yield each complete message. Raises ``WireError`` on invalid bytes."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_FRAME:
                raise WireError(f"a frame of {length} bytes is too long (at most {MAX_FRAME})")
            if len(self._buffer) < _LENGTH.size + length:
                return
            body = bytes(memoryview(self._buffer)[_LENGTH.size : _LENGTH.size + length])
            del self._buffer[: _LENGTH.size + length]
            yield _message(body)


def _message(body: bytes) -> Message:
    try:
        kind, fields = marshal.loads(body)
    except (EOFError, ValueError, TypeError) as error:
        raise WireError(f"the frame holds no valid message: {error}") from None
    if not isinstance(kind, str) or not isinstance(fields, dict):
        raise WireError("the frame holds no valid message")
    return kind, fields
