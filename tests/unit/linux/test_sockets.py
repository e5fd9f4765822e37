"""Socket buffers by the tables of a network namespace, for each kind of sockets in use."""

import os
import socket

import pytest

from stockade.linux import sockets

STAT = "sockets: used 2\nTCP: inuse {tcp} orphan 0 tw 0 alloc 1 mem 7\nUDP: inuse 0 mem 0\n"
STAT6 = "TCP6: inuse {tcp6}\nUDP6: inuse 0\n"


@pytest.mark.parametrize("tcp", [0, 1])
@pytest.mark.parametrize("tcp6", [0, 1])
def test_tables_in_use_know_the_memory_of_both_kinds(monkeypatch, tcp, tcp6):
    texts = {"sockstat": STAT.format(tcp=tcp), "sockstat6": STAT6.format(tcp6=tcp6)}
    monkeypatch.setattr(sockets.files, "read", lambda path: texts[path.rpartition("/")[2]])
    used = sockets._in_use(1)
    assert {kind: used[kind]["mem"] for kind in used if kind.startswith("tcp")} == dict(
        [("tcp", 7)] * tcp + [("tcp6", 7)] * tcp6
    )


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_own_namespace_can_be_read_with_one_kind_in_use(family):
    with socket.socket(family) as listener:
        listener.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        listener.listen()
        assert sockets.uncounted(os.getpid(), all_kinds=True, enough=1 << 40) >= 0
