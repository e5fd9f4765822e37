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
_PAGE = 4096
_RECEIVE_BUFFER = "/proc/sys/net/core/rmem_max"  # the most that SO_RCVBUF takes; the kernel doubles it


def uncounted(pid: int, *, all_kinds: bool, enough: int) -> int:
    """Return the bytes of socket buffers in the network namespace of process ``pid`` that control groups do not count.

    ``all_kinds`` means that no control group counts sockets. At ``enough`` bytes nothing more is read: a guest can fill
    the tables faster than anybody reads them. A table that cannot be read adds nothing.
    """
    used = _in_use(pid)
    if not used:
        return 0
    held = sum(int(words[4]) + int(words[5]) for words in _rows(pid, "netlink"))
    for table in used.keys() & set(_TCP):  # each table costs milliseconds, even for few sockets
        held += _of_connections(pid, table, used[table].get("mem", 0) * _PAGE, enough, all_kinds=all_kinds)
    for table in used.keys() & set(_DATAGRAMS) if all_kinds else ():
        held += sum(sum(_queues(words)) for words in _rows(pid, table))
    return held


def _in_use(pid: int) -> dict[str, dict[str, int]]:
    """Return the figures of each socket kind in use, by the names of their tables; ``sockets`` stands for any kind."""
    text = files.read(f"/proc/{pid}/net/sockstat")
    if text.startswith("sockets: used 0\n"):
        return {}
    found: dict[str, dict[str, int]] = {"tcp": {}}
    for line in (text + files.read(f"/proc/{pid}/net/sockstat6")).splitlines():
        kind, *words = line.split()
        found[kind.rstrip(":").lower()] = dict(zip(words[::2], map(int, words[1::2]), strict=False))
    found.setdefault("tcp6", {})["mem"] = found["tcp"].get("mem", 0)  # the kernel counts both kinds together
    return {kind: figures for kind, figures in found.items() if figures.get("inuse") or figures.get("used")}


def _of_connections(pid: int, table: str, most: int, enough: int, *, all_kinds: bool) -> int:
    """Return the bytes of the connections in a table. ``most`` is what TCP holds on the whole machine.

    A connection that its client has reset before ``accept`` keeps its data and is in no table. Only the queue of its
    listener still counts it, so its data are assumed to be the most possible.
    """
    held = queued = waiting = 0
    for words in _rows(pid, table):
        if words[3] == _LISTEN:  # they come first, and count all that wait
            queued += _queues(words)[1]
            continue
        if waiting >= queued and not all_kinds:
            break
        waits = words[9] == _NO_INODE and words[3] in (_ESTABLISHED, _CLOSE_WAIT)
        waiting += waits
        if waits or all_kinds:
            held += _OVERHEAD * sum(_queues(words))
        if held + max(queued, waiting) * _EACH >= enough:
            break
    hidden = max(0, queued - waiting)
    if hidden and held + queued * _EACH < enough:
        held += min(hidden * 2 * int(files.read(_RECEIVE_BUFFER) or 0), most)
    return held + max(queued, waiting) * _EACH


def _queues(words: list[str]) -> tuple[int, int]:
    """Return the bytes that wait to be sent, and those that wait to be read."""
    sent, _, received = words[4].partition(":")
    return int(sent, 16), int(received, 16)


def _rows(pid: int, table: str) -> Iterator[list[str]]:
    try:
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            next(file, "")
            yield from (words for line in file if len(words := line.split()) >= 10)
    except OSError:
        return  # the process has ended, or its kernel lacks the protocol
