"""The engine client: the process that speaks with container engines, so that the warden never waits for one.

It is forked from the warden and outlives it. When the warden is gone, its end of the socket closes; the engine client
then removes every container that it has made, and ends. Each container has a thread of its own, because the engine
answers one request after another.

From the warden: ``start`` (number, token, order), ``kill``, ``inspect`` and ``remove`` (number).
To the warden: ``started`` (number, id, pid), ``failed`` (number, message), ``inspected`` (number, oom, running),
``removed`` (number).
"""

from __future__ import annotations

import _socket as socket
import gc
import os
import queue
import threading
import time

from stockade.core.launch import ContainerOrder
from stockade.linux import places, processes
from stockade.linux.engine_api import EngineError, ask
from stockade.warden import protocol
from stockade.warden.containers import interfaces, ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any, NoReturn
else:
    import _signal as signal

_CHUNK = 1 << 16
_PERSIST_SECONDS, _AGAIN_SECONDS = 60.0, 1.0
"""How long to try to remove a container from an engine that does not answer. After that a sweep has to find it."""


def become_engine_client(control: int) -> NoReturn:
    """Serve the warden behind the socket ``control`` until it is gone. Never return."""
    try:
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for number in range(3):
            os.dup2(null, number)
        processes.close_all_but((0, 1, 2, control))
        os.setsid()  # a signal to the caller's group or terminal must not reach it: somebody has to clean up
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        gc.enable()  # the warden collects by itself
        EngineClient(socket.socket(fileno=control)).serve()
    except BaseException:  # the warden notices the closed socket
        os._exit(1)
    os._exit(0)


class EngineClient:
    """Takes orders, and hands each to the thread of its container."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._sending = threading.Lock()
        self._containers: dict[int, Container] = {}
        self._owner = ledger.identity(os.getpid())

    def serve(self) -> None:
        """Serve until the warden is gone. Then remove every container."""
        sweeper = threading.Thread(target=ledger.sweep, daemon=True)
        sweeper.start()
        decoder = protocol.Decoder()
        while data := self._receive():
            for kind, fields in decoder.feed(data):
                self._on_message(kind, fields)
        for container in (*self._containers.values(),):
            container.orders.put("remove")
        for thread in (sweeper, *(container.thread for container in (*self._containers.values(),))):
            thread.join()

    def _receive(self) -> bytes:
        try:
            return self._control.recv(_CHUNK)
        except OSError:
            return b""

    def _on_message(self, kind: str, fields: dict[str, Any]) -> None:
        number = fields["number"]
        if kind == "start":
            order = ContainerOrder(**fields["order"])
            self._containers[number] = Container(self, number, fields["token"], order, self._owner)
        elif number in self._containers:
            self._containers[number].orders.put(kind)

    def tell(self, kind: str, **fields: Any) -> None:
        """Send a message to the warden, if it is there."""
        try:
            with self._sending:
                self._control.sendall(protocol.encode(kind, **fields))
        except OSError:
            pass

    def forget(self, number: int) -> None:
        """Forget a container that is gone."""
        self._containers.pop(number, None)


class Container:
    """Makes one container, carries out orders for it, and removes it."""

    def __init__(self, client: EngineClient, number: int, token: str, order: ContainerOrder, owner: str) -> None:
        self._client, self._number, self._token, self._order = client, number, token, order
        self._labels = ledger.labels(token, owner)
        self.orders: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._start()
            while (order := self.orders.get()) != "remove":
                self._carry_out(order)
        except EngineError as error:
            self._tell("failed", message=f"the container engine at {error}")
        except Exception as error:  # the run must learn of it, and the container must go
            self._tell("failed", message=f"the engine client failed: {type(error).__name__}: {error}")
        finally:
            self._remove()

    def _start(self) -> None:
        import json

        name, interface = ledger.name_of(self._token), interfaces.ALL[self._order.interface]
        body = json.loads(self._order.create)
        interface.complete(body, name, self._labels, ledger.folder_of(self._token))
        self._ask("POST", f"{interface.prefix}/containers/create?name={name}", body)
        self._ask("POST", f"/containers/{name}/start")
        if self._order.update:
            self._ask("POST", f"{interface.prefix}/containers/{name}/update", json.loads(self._order.update))
        found = self._ask("GET", f"/containers/{name}/json")
        self._tell("started", id=found["Id"], pid=found["State"]["Pid"])

    def _carry_out(self, order: str) -> None:
        name = ledger.name_of(self._token)
        if order == "kill":
            try:
                self._ask("POST", f"/containers/{name}/kill?signal=KILL")
            except EngineError as error:
                if not error.status:
                    raise
                # else it is dead already
        elif order == "inspect":
            state = self._ask("GET", f"/containers/{name}/json")["State"]
            self._tell("inspected", oom=bool(state.get("OOMKilled")), running=bool(state.get("Running")))

    def _remove(self) -> None:
        """Remove the container and the folder. If the engine stays silent, both are left to a later sweep."""
        deadline = time.monotonic() + _PERSIST_SECONDS
        while True:
            try:
                ledger.remove(self._token, self._order.socket, self._labels)
                places.remove(ledger.folder_of(self._token))
                break
            except (EngineError, OSError):
                if time.monotonic() > deadline:
                    break
            time.sleep(_AGAIN_SECONDS)
        self._client.forget(self._number)
        self._tell("removed")

    def _ask(self, method: str, target: str, body: Any = None) -> Any:
        return ask(self._order.socket, method, target, body)

    def _tell(self, kind: str, **fields: Any) -> None:
        self._client.tell(kind, number=self._number, **fields)
