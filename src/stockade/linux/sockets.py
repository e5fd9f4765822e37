"""Sum the socket buffers that no control group counts, from the tables of a network namespace (proc_pid_net(5)).

A control group counts the buffers of a TCP connection only after accept (``mem_cgroup_sk_alloc``), and never counts
answers of netlink. If no control group counts sockets at all, the tables are the only source.
"""

from __future__ import annotations

from stockade.linux import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TCP, _DATAGRAMS = ("tcp", "tcp6"), ("udp", "udp6", "udplite", "udplite6", "raw", "raw6")
_ESTABLISHED, _CLOSE_WAIT, _LISTEN = "01", "08", "0A"
_NO_INODE = "0"  # not accepted yet
_OVERHEAD = 2
"""Factor for TCP. Its tables show payload only, and packets of loopback take up to twice as much memory."""
_EACH = 4096
"""Bytes of a connection that waits for accept, without its buffers."""


def uncounted(pid: int, *, all_kinds: bool) -> int:
    """Return the bytes of socket buffers in the network namespace of process ``pid`` that control groups do not count.

    ``all_kinds`` means that no control group counts sockets. A table that cannot be read adds nothing.
    """
    used = _in_use(pid)
    if not used:
        return 0
    held = sum(int(words[4]) + int(words[5]) for words in _rows(pid, "netlink"))
    for table in used.intersection(_TCP):  # each table costs milliseconds, even for few sockets
        held += sum(_of_connection(words, all_kinds) for words in _rows(pid, table))
    for table in used.intersection(_DATAGRAMS) if all_kinds else ():
        held += sum(sum(_queues(words)) for words in _rows(pid, table))
    return held


def _in_use(pid: int) -> set[str]:
    """Return the socket kinds in use, by the names of their tables; ``sockets`` stands for any kind."""
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
    """Return the bytes that wait to be sent, and those that wait to be read."""
    sent, _, received = words[4].partition(":")
    return int(sent, 16), int(received, 16)


def _rows(pid: int, table: str) -> Iterator[list[str]]:
    lines = files.read(f"/proc/{pid}/net/{table}").splitlines()
    for line in lines[1:]:
        words = line.split()
        if len(words) >= 10:
            yield words
