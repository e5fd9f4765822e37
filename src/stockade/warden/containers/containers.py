"""The warden's side of the engine client: starts it for the first container, and passes on what it reports."""

from __future__ import annotations

import _socket as socket
import os
import time

from stockade.linux import faults
from stockade.warden import loop, protocol
from stockade.warden.containers import ledger
from stockade.warden.containers.handle import ContainerHandle
from stockade.warden.containers.prewarmed import PrewarmedContainers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stockade.core.launch import ContainerOrder, Launch
    from stockade.warden.run.run import Run

_CHUNK = 1 << 16
_AGAIN_SECONDS = 1.0
LOST = "the engine client, the warden's process that speaks with the container engine, is gone"


class Containers:
    """The containers of one warden, by number."""

    def __init__(
        self,
        events: loop.Loop,
        dispose: Callable[[Callable[[], bool], Callable[[bool], None]], None],
        has_slack: Callable[[], bool],
    ) -> None:
        """``dispose`` waits for the end of a child: see ``Disposal.add``. ``has_slack`` is that of the admission."""
        self._loop = events
        self._dispose = dispose
        self.prewarmed = PrewarmedContainers(events, self._make, has_slack)
        self._control: socket.socket | None = None
        self._owner = ""
        self._unsent = bytearray()
        self._decoder = protocol.Decoder()
        self._count = 0
        self._again_at = float("-inf")
        """When a lost engine client may be replaced again at once, so that one which always fails makes no loop."""
        self._open: dict[int, ContainerHandle] = {}

    def begin(self, run: Run, launch: Launch) -> None:
        """Give ``run`` a container that waits, or a new one. An error there concerns this run alone."""
        from stockade.warden.run.container_execution import ContainerExecution  # few wardens need it

        assert launch.container is not None
        handle = None if run.begun_again else self.prewarmed.take(launch.container)
        run.prewarmed = handle is not None and handle.is_ready
        try:
            handle = handle or self._make(launch.container)
        except OSError as error:
            run.refuse(faults.explain("prepare the container's folder and the engine client", error))
            return
        run.execute(ContainerExecution(run.loop, self, launch, handle))

    def _make(self, order: ContainerOrder) -> ContainerHandle:
        """Return a container that is not requested yet. Raises ``OSError``."""
        self._connect()
        self._count += 1
        handle = self._open[self._count] = ContainerHandle(self, self._count, order, self._owner)
        return handle

    def forget(self, number: int) -> None:
        """Report nothing more about a container."""
        self._open.pop(number, None)

    def close(self) -> None:
        """Leave the engine client, which then removes every container and ends."""
        if self._control is not None:
            self._loop.forget(self._control.fileno())
            self._control.close()
            self._control = None

    def _connect(self) -> None:
        """Start the engine client unless it runs."""
        if self._control is not None:
            return
        from stockade.warden.containers.engine_client import become_engine_client

        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            pid = os.fork()
            if pid == 0:
                become_engine_client(theirs.fileno())
            self._owner = ledger.identity(pid)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._control, self._decoder, self._unsent = ours, protocol.Decoder(), bytearray()
        self._loop.watch(ours.fileno(), loop.READ, self._on_ready)
        self._pid = pid

    def send(self, kind: str, number: int, **fields: Any) -> None:
        """Send the engine client a request about a container: ``start``, ``kill``, ``inspect`` or ``remove``."""
        if self._control is None:
            return  # every container has learned that the engine client is gone
        self._unsent += protocol.encode(kind, number=number, **fields)
        self._flush()

    def _flush(self) -> None:
        assert self._control is not None
        try:
            while self._unsent:
                del self._unsent[: self._control.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()  # the end of the socket is about to be read
        events = loop.READ | (loop.WRITE if self._unsent else 0)
        self._loop.watch(self._control.fileno(), events, self._on_ready)

    def _on_ready(self, events: int) -> None:
        if events & loop.WRITE:
            self._flush()
        assert self._control is not None
        try:
            data = self._control.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_lost()
            return
        for kind, fields in self._decoder.feed(data):
            handle = self._open.get(fields["number"])
            if handle is not None:
                handle.on_engine(kind, fields)

    def _on_lost(self) -> None:
        self.close()
        self._dispose(self._is_reaped, lambda _reaped: None)
        left = (*self._open.values(),)
        for handle in left:
            handle.on_engine("failed", {"message": LOST})
            handle.on_engine("removed", {})
        if left and time.monotonic() > self._again_at:
            self._again_at = time.monotonic() + _AGAIN_SECONDS
            self._connect()  # the new one removes the containers of the old one

    def _is_reaped(self) -> bool:
        try:
            return os.waitpid(self._pid, os.WNOHANG)[0] == self._pid
        except ChildProcessError:
            return True
