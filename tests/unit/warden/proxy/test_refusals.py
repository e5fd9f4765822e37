"""A refusal is in the account before the guest can notice it: a run may end at that moment."""

import socket
import ssl
import threading
import time

import pytest

from stockade.core.launch import ProxyOrder
from stockade.warden.proxy import dial
from stockade.warden.proxy.account import Account
from stockade.warden.proxy.server import Proxy

ALLOW = ("a.org:443", "a.org:80")
ORDER = ProxyOrder(
    allow=ALLOW, connections=1, requests=9, sent=None, received=300, rate=None, connect_seconds=5.0, idle_seconds=5.0
)


class Slow(Account):
    """Takes its time before it counts a refusal."""

    def refuse(self, refusal):
        time.sleep(0.1)
        super().refuse(refusal)


def _pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname(), timeout=5)
        far, _ = listener.accept()
    far.settimeout(5)
    return near, far


@pytest.fixture
def connect(monkeypatch):
    """Return a function that gives the guest's end of a session, the server's end, and the session's account."""
    ends, threads = [], []

    def connected():
        guest, client = _pair()
        server, dialed = _pair()
        ends.extend((guest, client, server, dialed))
        monkeypatch.setattr(dial, "connect", lambda target, seconds: dialed)
        proxy = Proxy(ORDER, client, client)
        proxy.account = Slow(ORDER)
        threads.append(threading.Thread(target=proxy._serve, args=(client,)))
        threads[-1].start()
        return guest, server, proxy.account

    yield connected
    for each in ends:
        each.close()
    for each in threads:
        each.join(5)


def _hello(name):
    out = ssl.MemoryBIO()
    made = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        made.do_handshake()
    return out.read()


def test_alert_comes_after_the_refusal_is_counted(connect):
    guest, _, account = connect()
    guest.sendall(b"CONNECT a.org:443 HTTP/1.1\r\nHost: a.org:443\r\n\r\n")
    assert guest.recv(1 << 10).startswith(b"HTTP/1.1 200")
    guest.sendall(_hello("b.org"))
    guest.recv(1 << 10)
    assert b"the TLS connection is for 'b.org'" in account.encode()


def test_connection_ends_after_the_refusal_is_counted(connect):
    guest, server, account = connect()
    guest.sendall(b"GET http://a.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n")
    server.recv(1 << 10)
    server.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + bytes(1000))
    while guest.recv(1 << 10):
        pass
    assert b"the run has used the 300 bytes of network.received" in account.encode()
