"""Inside the worker: one engine, and the frames that drive it. Standard library and the engine only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stockade.embedded.endings import Exhausted, Failed, Uncrossable
from stockade.embedded.engine import Engine
from stockade.embedded.sink import Sink
from stockade.embedded.worker import messages
from stockade.embedded.worker.codec import CodecError, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    Send = Callable[[bytes, bytes], None]
    Receive = Callable[[], tuple[bytes, bytes]]


class Limits:
    """The caps of the runtime, as the caller sent them."""

    fuel: int | None
    heap_objects: int | None
    frames: int | None
    deadline: float | None
    symbols: int | None
    value_bytes: int | None

    def __init__(self, caps: dict[str, Any]) -> None:
        vars(self).update(caps)


class RemoteError(Exception):
    """A host function failed at the caller. ``number`` is the caller's name for the error."""

    def __init__(self, number: int, text: str | None) -> None:
        super().__init__(text or "")
        self.number, self.is_for_scripts = number, text is not None


class Agent:
    """Serves the requests of one runtime."""

    def __init__(self, send: Send, receive: Receive) -> None:
        self._send, self._receive = send, receive
        kind, payload = receive()
        if kind != messages.START:
            raise ValueError("the first message is not a start")
        caps, clock, seed, most_output = decode(payload)
        self._engine = Engine(Limits(caps), clock=clock, seed=seed, sink=Sink(most_output))
        self._calls: dict[bytes, Callable[..., Any]] = {
            messages.RUN: self._engine.run,
            messages.CALL: self._engine.call,
            messages.GET: self._engine.get,
            messages.SET: self._engine.set,
        }
        self._printed = 0

    def answer(self) -> None:
        """Take one request, and send how it ended."""
        kind, payload = self._receive()
        names, fields = decode(payload)
        for name in names:
            self._engine.register(name, self._host_function(name))
        try:
            ending, answer = messages.VALUE, (self._calls[kind](*fields),)
        except Exhausted as error:
            ending, answer = messages.EXHAUSTED, error.args
        except Failed as error:
            ending, answer = messages.FAILED, (*error.args, getattr(error.__cause__, "number", None))
        except Uncrossable as error:
            ending, answer = messages.UNCROSSABLE, (str(error),)
        try:
            data = encode((self._report(), answer))
        except CodecError as error:
            ending, data = messages.UNCROSSABLE, encode((self._report(), (str(error),)))
        self._printed = len(self._engine.sink.text)
        self._send(ending, data)

    def _report(self) -> tuple[Any, ...]:
        engine = self._engine
        return engine.fuel, engine.symbol_count, engine.sink.text[self._printed :], engine.sink.dropped

    def _host_function(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._send(messages.HOST_CALL, encode((name, list(args), kwargs)))
            kind, payload = self._receive()
            if kind == messages.RETURNED:
                return decode(payload)
            if kind == messages.RAISED:
                raise RemoteError(*decode(payload))
            return object()  # what the function returned is not data, and the border refuses this as well

        return call


def serve(send: Send, receive: Receive) -> None:
    """Serve until the caller is gone."""
    try:
        agent = Agent(send, receive)
        send(messages.READY, b"")
        while True:
            agent.answer()
    except Exception as error:
        send(messages.BROKEN, encode(f"{type(error).__name__}: {error}"[:500]))
