"""The network namespace of a worker. The next guest gets the same one only if no packet left a trace in it."""

from __future__ import annotations

import os

from stockade.linux import libc, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stockade.linux.stage import Stage

_TRACES = ("net/snmp", "net/snmp6", "net/sockstat", "net/ip6_flowlabel")
"""Files that packets and sockets change. Every count of net/netstat comes with one of net/snmp. Flow labels need a file
of their own: one stays for a minute without a packet or a socket (IPV6_FLOWLABEL_MGR)."""
_MAX_BYTES = 1 << 16


class Network:
    """The worker's network namespace, new with the worker, with nothing but a loopback device."""

    def __init__(self, stage: Stage, steps: Sequence[Sequence[Any]]) -> None:
        """``steps`` bring the loopback up."""
        self._stage = stage
        self._steps = steps
        self._readers: list[int] = []
        self._bring_up()

    def renew(self) -> None:
        """Make a fresh namespace if anything was sent, refused or counted in the current one.

        Open connections, ports, routes and counters (proc_pid_net(5)) would tell the next guest about the last one.
        """
        if self._read() == self._before:
            return
        libc.unshare(processes.NEW_NET)
        self._bring_up()

    def _bring_up(self) -> None:
        self._stage.apply(self._steps)
        for fd in self._readers:
            os.close(fd)
        self._readers = []
        for name in _TRACES:
            try:
                self._readers.append(os.open(f"/proc/self/{name}", os.O_RDONLY | os.O_CLOEXEC))
            except FileNotFoundError:
                continue  # this kernel lacks the protocol
        self._before = self._read()

    def _read(self) -> list[bytes]:
        return [os.pread(fd, _MAX_BYTES, 0) for fd in self._readers]
