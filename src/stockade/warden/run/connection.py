"""The warden's end of one run's socket: receives and sends messages, and notices that the caller is gone."""

from __future__ import annotations

import _socket as socket

from stockade.warden import loop, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol
else:
    Protocol = object

_CHUNK = 1 << 16  # the allocator would map and unmap a larger buffer each time


class Listener(Protocol):
    """The receiver of a connection's events."""

    def on_message(self, kind: str, fields: dict[str, Any]) -> None:
        """Handle a message. Raises ``protocol.WireError``, ``KeyError`` or ``TypeError`` if it makes no sense."""

    def on_nonsense(self, reason: str) -> None:
        """Handle bytes or a message that cannot be understood."""

    def on_cancel(self) -> None:
        """End the run: the caller has shut down its direction, and waits for the verdict."""

    def on_gone(self) -> None:
        """End the run: the caller is gone."""

    def on_answered(self, sock: socket.socket, decoder: protocol.Decoder) -> None:
        """Reuse the socket for another run, after the last message. ``decoder`` may hold bytes that were read ahead."""

    def on_flushed(self) -> None:
        """Adapt to the pace of the caller: some or all waiting bytes are sent."""


class Connection:
    """Never blocks. All callbacks come from the loop, or from within ``send``."""

    def __init__(
        self, events: loop.Guarded, sock: socket.socket, decoder: protocol.Decoder, listener: Listener
    ) -> None:
        self._loop = events
        self._sock = sock
        self._decoder = decoder
        self._listener = listener
        self._outgoing = bytearray()
        self._shut = False
        self._last = False
        self.gone = False
        self._listening = True
        self._watch()

    @property
    def pending(self) -> int:
        """The number of bytes that the caller has not taken yet."""
        return len(self._outgoing)

    def send(self, kind: str, *, last: bool = False, **fields: Any) -> None:
        """Send as much as the socket takes now, and the rest later. Detach from the socket after the ``last`` one."""
        if not self.gone:
            self._last = last
            self._outgoing += protocol.encode(kind, **fields)
            self._flush()

    def send_with_next(self, kind: str, **fields: Any) -> None:
        """Queue a message to go out with the next one, so that it does not wake the caller alone."""
        if not self.gone:
            self._outgoing += protocol.encode(kind, **fields)

    def flush(self) -> None:
        """Send queued messages now."""
        if self._outgoing and not self.gone:
            self._flush()

    def listen(self, listening: bool) -> None:
        """Receive messages, or leave them in the socket."""
        if listening != self._listening and not self.gone:
            self._listening = listening
            self._watch()

    def close(self) -> None:
        """Close the socket; the connection is ``gone`` from now on."""
        if not self.gone:
            self._detach()
            self._sock.close()

    def _detach(self) -> None:
        self.gone = True
        self._outgoing.clear()
        self._loop.forget(self._sock.fileno())

    def _watch(self) -> None:
        events = 0 if self._shut else loop.SHUT
        events |= loop.READ if self._listening and not self._shut else 0
        events |= loop.WRITE if self._outgoing else 0
        self._loop.watch(self._sock.fileno(), events, self._on_events)

    def _on_events(self, events: int) -> None:
        if events & loop.HUNG_UP:
            self._lose()
            return
        if events & loop.SHUT and not self._shut:
            while self._listening and not self.gone and self._receive():
                pass  # the socket may still hold messages, even the launch itself
            if self.gone:
                return
            self._shut = True
            self._watch()
            self._listener.on_cancel()
        if events & loop.WRITE and not self.gone:
            self._flush()
        if events & loop.READ and not self._shut and not self.gone:
            self._receive()

    def _receive(self) -> bool:
        """Receive once. Return whether more may come."""
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            self._lose()
            return False
        try:
            for kind, fields in self._decoder.feed(data):
                self._listener.on_message(kind, fields)
        except (protocol.WireError, KeyError, TypeError) as error:
            self._listener.on_nonsense(f"the caller sent nonsense: {error!r}")
            return False
        return bool(data)

    def _flush(self) -> None:
        try:
            while self._outgoing:
                sent = self._sock.send(self._outgoing, socket.MSG_NOSIGNAL)
                del self._outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()
            return
        if self._last and not self._outgoing:
            self._detach()
            if self._shut:
                self._sock.close()  # the caller has shut down its direction, so no launch can follow
            else:
                self._listener.on_answered(self._sock, self._decoder)
        else:
            self._watch()
        self._listener.on_flushed()

    def _lose(self) -> None:
        self.close()
        self._listener.on_gone()
