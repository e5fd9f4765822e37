"""The front of a service: the process that faces the network. It has no right beyond what it has open.

The parent starts it, as ``python -m stockade.service.front``. It opens its database connections and loads its modules,
and then gives up every way to a file, a connection or a program (``confine``), before it reads a byte of a client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator

import uvicorn

from stockade.core.errors import StockadeError
from stockade.core.strict_json import dumps
from stockade.service import app
from stockade.service.confine import confine
from stockade.service.database import Database
from stockade.service.gate import Gate, Protocol, SocketProtocol
from stockade.service.link import ALIVE, READY, REFUSED, Link
from stockade.service.living.channel import Channel
from stockade.service.processes import Order, at_sigterm
from stockade.service.state import State
from stockade.service.warm_up import warm_up

_MOST_CONNECTIONS = 512
_MESSAGE_BYTES = 1 << 16
"""The most that a client may send to a terminal at once. Nothing is compressed, so none of it grows."""
_GRACE_SECONDS = 5


class _Server(uvicorn.Server):
    """uvicorn, which leaves the signals to this module, and tells the parent when it accepts connections."""

    link: Link

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self.link.send(READY)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def _main(order: Order, end: socket.socket, calls: socket.socket, listener: socket.socket) -> None:
    parent = os.pidfd_open(order.parent)
    if os.getppid() != order.parent:
        return  # the parent ended before this process began
    link = await Link.over(end)
    try:
        state = State(order.settings, Database(order.settings.data, 1))
        server = await _loaded(state)
        confine(order.uid, parent)
    except StockadeError as error:
        link.send(REFUSED, dumps(error.as_json(), compact=True))
        return
    state.link = server.link = link
    state.calls.channel = Channel(calls)

    def stop() -> None:
        server.should_exit = True
        state.stop()

    at_sigterm(stop)
    helpers = [
        asyncio.create_task(each)
        for each in (state.listen(), state.calls.listen(), _beat(link, order.settings.lease / 3))
    ]
    await server.serve([listener])
    for task in helpers:
        task.cancel()


async def _loaded(state: State) -> _Server:
    """Return the server, with all modules loaded that it may need."""
    made = app.make(state)
    await warm_up(made, state)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # a warning for each invalid request helps nobody
    config = uvicorn.Config(
        Gate(made, state), http=Protocol, ws=SocketProtocol, ws_max_size=_MESSAGE_BYTES, ws_per_message_deflate=False,
        lifespan="off", loop="asyncio", log_config=None, access_log=False, limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_SECONDS, server_header=False, proxy_headers=False,
    )  # fmt: skip
    config.load()
    return _Server(config)


async def _beat(link: Link, seconds: float) -> None:
    while True:
        link.send(ALIVE)
        await asyncio.sleep(seconds)


def main() -> None:
    """Start the front that the argument describes."""
    order = Order.load(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _lock, calls, listener = order.others
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(fileno=fd)) for fd in (order.link, calls, listener)]
        asyncio.run(_main(order, *sockets))
    os._exit(0)  # the end of the interpreter would load modules, and close a database that it cannot reach


if __name__ == "__main__":
    main()
