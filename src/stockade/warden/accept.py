"""The accept loop: receives the socket of each new run over the control socket."""

from __future__ import annotations

import _socket as socket
import os

from stockade.warden import loop, protocol
from stockade.warden.cold.instance import descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE = 256
_MOST_FDS = 2


class AcceptLoop:
    """Accepts runs until the caller closes its end of the control socket."""

    def __init__(
        self,
        events: loop.Loop,
        control: socket.socket,
        *,
        may_accept: Callable[[], bool],
        on_run: Callable[[socket.socket, int], None],
        on_end: Callable[[], None],
    ) -> None:
        """Accept runs while ``may_accept`` returns true.

        ``on_run`` receives the socket of each run, and a descriptor for its proxy or -1. ``on_end`` is called when no
        more can come.
        """
        self._control = control
        self._on_run, self._on_end, self._may_accept = on_run, on_end, may_accept
        self._loop = events
        self._listening = True
        events.watch(control.fileno(), loop.READ, self._on_control)

    def listen(self) -> None:
        """Accept runs again if the host has capacity again. Until then they wait in the control socket."""
        if not self._listening and self._may_accept():
            self._listening = True
            self._loop.watch(self._control.fileno(), loop.READ, self._on_control)

    def _on_control(self, events: int) -> None:
        if events & loop.HUNG_UP and not self._listening:
            self._on_end()
            return
        # With one run a turn, the set-up of the first runs would delay even the acceptance of the later ones.
        for _ in range(_AT_ONCE):
            if not self._may_accept():
                self._listening = False
                self._loop.watch(self._control.fileno(), 0, self._on_control)
                return
            if not self._receive():
                return

    def _receive(self) -> bool:
        """Receive the socket of one run. Return whether more may come."""
        try:
            data, fds = _receive_descriptors(self._control)
        except BlockingIOError:
            return False
        except OSError:
            data, fds = b"", []
        if data == protocol.NEW_RUN and not fds:
            return True  # no descriptor was free here: the caller reads end-of-file, and reports that
        if data != protocol.NEW_RUN:
            self._on_end()
            return False
        sock = socket.socket(fileno=fds[0])
        sock.setblocking(False)
        self._on_run(sock, fds[1] if len(fds) > 1 else -1)
        return True


def _receive_descriptors(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Return one byte and the descriptors that came with it; none of them if the kernel had to drop one."""
    space = socket.CMSG_SPACE(4 * _MOST_FDS)
    data, ancillary, flags, _ = sock.recvmsg(1, space, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
    fds = descriptors(ancillary)
    if flags & socket.MSG_CTRUNC:  # a run without its second one would pass for a run without secrets
        for fd in fds:
            os.close(fd)
        fds = []
    return data, fds
