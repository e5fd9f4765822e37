"""The wire protocol between a caller and its warden, without any I/O: bytes in, messages out.

A frame is a big-endian 32-bit length and a message, ``(kind, fields)``, as ``marshal`` writes it (version 4): both
ends are the same interpreter, and what a guest has written is only ever a ``bytes`` object in it. A control socket
carries one byte for each new run, with the run's own socket as a descriptor; all about a run goes over its own.

Caller to warden: ``launch`` (the launch; what is as in the one before over the same socket is left out), ``stdin``
(data; none means end), ``signal`` (number), ``pause``, ``resume``, ``ping``. A caller that shuts down its direction of
a run's socket cancels the run, whatever it had sent before.
Warden to caller: ``hello`` (facts, once, on the control socket) or ``failed`` (message), ``started``,
``output`` (stream, at, data), ``limit`` (guarantee, state, used, figure), ``usage`` (readings, every
``report_seconds`` of the launch), ``fed`` (count: bytes of standard input that have left the warden), ``exited``
(report), ``refused`` (message: the sandbox failed), ``pong`` (to ``ping``), ``waiting`` and ``accepted``.

The warden accepts a launch by reading it whole, unless it answers ``waiting``: then by saying ``accepted``, before the
guest gets anything. A launch that a lost warden has not accepted has not begun, and may be sent to another one.
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
"""Bytes of a frame before its message."""
_MARSHAL_VERSION = 4
MAX_FRAME = 1 << 30
NEW_RUN = b"R"
PROCESS_NAME = "stockade-warden"
"""What the kernel calls a warden and those forked from it (proc(5), ``comm``): so a zombie is known for one."""
FORK_WARMED_UP, FORK_AT_ONCE = b"L", b"H"
"""The words to a keeper to make another guest: one that has rehearsed, or at once, where all processors are taken."""
COMPLETION_MARKER = b"\0stockade\0"
"""What a guest in a copy of a warm interpreter says on its channel when it is done, before its exit status, one byte:
no report has a NUL in it, and no program writes this unless it means it."""
SET_TEMPLATE = b"F"
"""The word before an order, but for its source, that its guests are most likely going to get from now on."""


class WireError(Exception):
    """The other side sent bytes that are no frame."""


def encode(kind: str, **fields: Any) -> bytes:
    """Return one frame. Values are None, booleans, numbers, text, bytes, and lists and mappings of these."""
    body = marshal.dumps((kind, fields), _MARSHAL_VERSION)
    return _LENGTH.pack(len(body)) + body


def order(launch: Launch) -> bytes:
    """Return what the process that waits in a cell is told of a ``launch``."""
    about = {"argv": launch.argv, "environment": launch.environment, "channel": launch.channel}
    return encode("launch", steps=launch.whole_steps, trace=launch.trace, **about)


def template_message(template: TemplateFields) -> bytes:
    """Return what a keeper is told of the launches to come, with ``SET_TEMPLATE`` before it."""
    argv, environment, channel, steps = template
    return encode("template", argv=argv, environment=environment, channel=channel, steps=steps)


def source_message(source: bytes, trace: int) -> bytes:
    """Return what a guest is told of a launch whose form its keeper was told before; noted as ``trace``."""
    return encode("source", source=source, trace=trace)


def length(head: bytes) -> int:
    """Return how many bytes of a frame come after its ``head``; raise ``WireError`` where that is cut off."""
    if len(head) != HEAD:
        raise WireError("a frame that is cut off")
    return int(_LENGTH.unpack(head)[0])


class Decoder:
    """Collects bytes and gives whole messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take ``data`` and yield each message that is complete; raise ``WireError`` on nonsense."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_FRAME:
                raise WireError(f"a frame of {length} bytes")
            if len(self._buffer) < _LENGTH.size + length:
                return
            body = bytes(memoryview(self._buffer)[_LENGTH.size : _LENGTH.size + length])
            del self._buffer[: _LENGTH.size + length]
            yield _message(body)


def _message(body: bytes) -> Message:
    try:
        kind, fields = marshal.loads(body)
    except (EOFError, ValueError, TypeError) as error:
        raise WireError(f"a frame that is no message: {error}") from None
    if not isinstance(kind, str) or not isinstance(fields, dict):
        raise WireError("a frame that is no message")
    return kind, fields
