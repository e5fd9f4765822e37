"""The warden's side of a proxy: starts it at the guest's first connection, and takes its account at the end."""

from __future__ import annotations

import _socket as socket
import os
import time

from stockade.linux import faults
from stockade.warden import loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from stockade.core.launch import ProxyOrder
    from stockade.warden.owner import RunOwner
else:
    import _signal as signal

_END_SECONDS = 1.0
"""The time that a proxy has to give its account at the end of the run."""
_MOST_ACCOUNT = 1 << 18
_CHUNK = 1 << 16


class ProxyHandle:
    """Holds the listener inside the sandbox until somebody connects, and from then on the proxy."""

    def __init__(self, events: loop.Guarded, order: ProxyOrder, listener: int, owner: RunOwner, broker: int) -> None:
        """``listener`` is a listening socket in the guest's network, and ``broker`` a socket to the caller, or -1.

        From now on both belong to this object.
        """
        self._loop, self._order, self._listener, self._owner = events, order, listener, owner
        self._broker = broker
        self._pid = 0
        self._uid: int | None = None
        self._control: socket.socket | None = None
        self._due = float("inf")
        self._on_end: Callable[[], None] | None = None
        self.account = b""
        """What the proxy counted. Its process has parsed bytes of the guest, so the account is unparsed here."""
        self.trouble = ""
        """The reason why the account is missing or ends early."""
        try:
            self._loop.watch(listener, loop.READ, self._on_first)
        except OSError:
            self._close_sockets()
            raise

    def finish(self, on_end: Callable[[], None]) -> None:
        """End the proxy. Call ``on_end`` when its account is there, or at the deadline."""
        self._on_end = on_end
        self._close_sockets()
        if self._control is None:
            on_end()
            return
        self._due = time.monotonic() + _END_SECONDS
        try:
            self._control.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the proxy has ended; its last bytes can be read

    def tick(self, now: float) -> float:
        """Kill a proxy that gives no account in time. Return when to check again."""
        if now >= self._due:
            self._end(f"the proxy gave no account within {_END_SECONDS:g} s")
        return self._due

    def _on_first(self, _events: int) -> None:
        """Start the proxy: the guest has connected."""
        try:
            self._start()
        except OSError as error:
            self.trouble = faults.explain("start the proxy of the run", error)
            if self._control is None:
                self._release_uid()
            else:  # it lives, and has the uid until it is reaped
                self._end("")
        self._close_sockets()

    def _start(self) -> None:
        from stockade.warden.proxy.process import become_proxy  # few runs need it

        self._uid = self._owner.take_uid()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        itself = os.pidfd_open(os.getpid())
        try:
            self._pid = os.fork()
            if self._pid == 0:
                become_proxy(
                    self._order, self._listener, theirs.fileno(), warden=itself, uid=self._uid, broker=self._broker
                )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(itself)
        ours.setblocking(False)
        self._control = ours
        self._loop.watch(ours.fileno(), loop.READ, self._on_control)

    def _on_control(self, _events: int) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.account += data
        if not data:
            self._end("" if self._due < float("inf") else "the proxy ended before the run")
        elif len(self.account) > _MOST_ACCOUNT:
            self._end("the proxy's account is too long")

    def _end(self, trouble: str) -> None:
        """Kill the proxy, and have it reaped."""
        self.trouble = self.trouble or trouble
        self._due = float("inf")
        if self._control is not None:
            self._loop.forget(self._control.fileno())
            self._control.close()
            self._control = None
            os.kill(self._pid, signal.SIGKILL)  # our child, and not reaped yet
            self._owner.dispose(self._is_reaped, self._on_reaped)
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end()

    def _is_reaped(self) -> bool:
        try:
            return os.waitpid(self._pid, os.WNOHANG)[0] == self._pid
        except ChildProcessError:
            return True

    def _on_reaped(self, reaped: bool) -> None:
        if reaped:  # else nobody may have its uid
            self._release_uid()

    def _release_uid(self) -> None:
        if self._uid is not None:
            self._owner.release_resources(self._uid, None)
            self._uid = None

    def _close_sockets(self) -> None:
        if self._listener >= 0:
            self._loop.forget(self._listener)
            os.close(self._listener)
            self._listener = -1
        if self._broker >= 0:
            os.close(self._broker)
            self._broker = -1
