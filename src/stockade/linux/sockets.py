"""Buffers of sockets that no control group counts, summed from the tables of a network namespace (proc_pid_net(5)).

A control group counts the buffers of a TCP connection from when it is accepted (``mem_cgroup_sk_alloc``), and answers
of netlink never. Where no control group counts sockets at all, the tables are all there is.
"""

from __future__ import annotations

from stockade.linux import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TCP, _DATAGRAMS = ("tcp", "tcp6"), ("udp", "udp6", "udplite", "udplite6", "raw", "raw6")
_ESTABLISHED, _CLOSE_WAIT, _LISTEN = "01", "08", "0A"
_NO_INODE = "0"  # nobody has accepted it yet
_OVERHEAD = 2
"""The tables of TCP tell the payload of a buffer. Packets of loopback take up to twice as much."""
_EACH = 4096
"""Bytes of a connection in the queue, beside its buffers."""


def uncounted(pid: int, *, all_kinds: bool) -> int:
    """Return the bytes that buffers in the network namespace of process ``pid`` hold beside what control groups count.

    ``all_kinds`` tells that no control group counts sockets. A table that cannot be read adds nothing.
    """
    used = _in_use(pid)
    if not used:
        return 0
    held = sum(int(words[4]) + int(words[5]) for words in _rows(pid, "netlink"))
    for table in used.intersection(_TCP):  # such a table takes the kernel milliseconds, however few sockets are ours
        held += sum(_of_connection(words, all_kinds) for words in _rows(pid, table))
    for table in used.intersection(_DATAGRAMS) if all_kinds else ():
        held += sum(sum(_queues(words)) for words in _rows(pid, table))
    return held


def _in_use(pid: int) -> set[str]:
    """Return the kinds that have a socket, by the names of their tables; ``sockets`` are those of any kind."""
    text = files.read(f"/proc/{pid}/net/sockstat")
    if text.startswith("sockets: used 0\n"):
        return set()
    rows = (line.split() for line in (text + files.read(f"/proc/{pid}/net/sockstat6")).splitlines())
    return {words[0].rstrip(":").lower() for words in rows if words[1:2] in (["inuse"], ["used"]) and words[2] != "0"}


def _of_connection(words: list[str], all_kinds: bool) -> int:
    state = words[3]
    waiting = words[9] == _NO_INODE and state in (_ESTABLISHED, _CLOSE_WAIT)
    if state == _LISTEN or not (waiting or all_kinds):
        return 0
    return _OVERHEAD * sum(_queues(words)) + (_EACH if waiting else 0)


def _queues(words: list[str]) -> tuple[int, int]:
    """Return what waits to be sent and what waits to be read."""
    sent, _, received = words[4].partition(":")
    return int(sent, 16), int(received, 16)


def _rows(pid: int, table: str) -> Iterator[list[str]]:
    lines = files.read(f"/proc/{pid}/net/{table}").splitlines()
    for line in lines[1:]:
        words = line.split()
        if len(words) >= 10:
            yield words
