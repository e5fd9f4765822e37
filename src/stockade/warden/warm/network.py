"""The network namespace of a slot: used again only if no packet of an earlier run has left a trace in it."""

from __future__ import annotations

import os

from stockade.linux import libc, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stockade.linux.stage import Stage

_TRACES = ("net/snmp", "net/snmp6", "net/sockstat", "net/ip6_flowlabel")
"""What packets and sockets leave: whatever net/netstat counts goes with something that net/snmp counts. A flow label
stays for a minute without either (IPV6_FLOWLABEL_MGR)."""
_LONGEST = 1 << 16


class Network:
    """Made with the keeper, empty but for its loopback."""

    def __init__(self, stage: Stage, steps: Sequence[Sequence[Any]]) -> None:
        """``steps`` bring it up."""
        self._stage = stage
        self._steps = steps
        self._readers: list[int] = []
        self._fill()

    def renew(self) -> None:
        """Make it anew if anything was sent, refused or counted there since it was made: connections that linger,
        ports, routes and counters (proc_pid_net(5)) would tell the next guest of the last one."""
        if self._read() == self._before:
            return
        libc.unshare(processes.NEW_NET)
        self._fill()

    def _fill(self) -> None:
        self._stage.apply(self._steps)
        for fd in self._readers:
            os.close(fd)
        self._readers = []
        for name in _TRACES:
            try:
                self._readers.append(os.open(f"/proc/self/{name}", os.O_RDONLY | os.O_CLOEXEC))
            except FileNotFoundError:
                continue  # a kernel without that protocol
        self._before = self._read()

    def _read(self) -> list[bytes]:
        return [os.pread(fd, _LONGEST, 0) for fd in self._readers]
