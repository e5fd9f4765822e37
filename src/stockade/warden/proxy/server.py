"""Serve the connections of one guest: one request on each, checked before anything of it goes anywhere."""

from __future__ import annotations

import _socket as socket
import _thread
import select
import time

from stockade.core import targets
from stockade.warden.proxy import dial, heads, tls
from stockade.warden.proxy.account import RECEIVED, SENT, Account, Refused, one_line
from stockade.warden.proxy.relay import Body, Closed, Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from stockade.core.launch import ProxyOrder
    from stockade.core.targets import Target
    from stockade.warden.proxy.broker import Broker
    from stockade.warden.proxy.heads import Request
    from stockade.warden.proxy.vault import Vault

_AGAIN_SECONDS = 0.01
_ANSWERED_BEYOND = 100
"""Requests beyond ``network.requests`` that still get an answer."""
_LINGER_SECONDS = 0.5
_MOST_EARLY = 1 << 18
"""Bytes of early data that may come before a second ClientHello."""
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Proxy:
    """Accepts connections until the warden says that the run is over."""

    def __init__(
        self,
        order: ProxyOrder,
        listener: socket.socket,
        control: socket.socket,
        broker: Broker | None = None,
        vault: Vault | None = None,
    ) -> None:
        self.order, self.broker, self.vault = order, broker, vault
        self.patterns = [targets.parse_pattern(text) for text in order.allow]
        self.account = Account(order)
        self._listener, self._control = listener, control
        self._lock = _thread.allocate_lock()
        self._active = 0

    def run(self) -> None:
        """Serve, and at the end send the account to the warden."""
        poll = select.poll()
        for sock in (self._control, self._listener):
            poll.register(sock, select.POLLIN)
        listening = True
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._control.fileno() in ready:
                break
            if self._active >= self.order.connections:
                time.sleep(_AGAIN_SECONDS)
            elif listening and self.account.exhausted(_ANSWERED_BEYOND):
                listening = False
                poll.unregister(self._listener)
                self._listener.close()
            elif listening:
                self._accept()
        self._control.sendall(self.account.encode())

    def _accept(self) -> None:
        try:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]
            client = socket.socket(fileno=fd)
        except OSError:  # the client is gone already, or no descriptor is free
            time.sleep(_AGAIN_SECONDS)
            return
        with self._lock:
            self._active += 1
        try:
            _thread.start_new_thread(self._serve, (client,))
        except RuntimeError:  # the host has no thread left: this connection ends, and the proxy goes on
            client.close()
            with self._lock:
                self._active -= 1

    def _serve(self, client: socket.socket) -> None:
        """Serve one connection to its end. Whatever goes wrong concerns this connection alone."""
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Session(self, client).run()
        except (Closed, OSError):
            pass
        except Exception as error:  # of ours: the account names its kind; its text could quote what a guest sent
            self.account.refuse(Refused(500, f"the proxy failed: {type(error).__name__}"))
        finally:
            client.close()
            with self._lock:
                self._active -= 1


class Session:
    """A connection of the guest."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self._proxy, self._order, self._account = proxy, proxy.order, proxy.account
        self._wire = Wire(client, self._account, self._order.idle_seconds)
        self._client = client
        self._deadline = time.monotonic() + self._order.connect_seconds

    def run(self) -> None:
        """Read the request, connect to its target, and move bytes. A refusal gets an answer."""
        try:
            self._account.admit()
            request = self._request()
            self._check(request.target)
            server = self._connection(request)
        except Refused as refusal:
            self._account.refuse(refusal)
            self._answer(refusal)
            return
        try:
            self._wire.open(server, self._account.accept(str(request.target)))
            if request.connect:
                self._tunnel(request.target)
            elif request.secure:
                self._forward_in_turn(request)
            else:
                self._forward(request)
        except Refused as refusal:
            self._wire.refuse(refusal)
        finally:
            server.close()

    def _request(self) -> Request:
        data = b""
        while heads.END not in data:
            if len(data) > heads.MOST_HEAD:
                raise Refused(431, "the head of the request is too long")
            data += self._receive()
        head, _, self._wire.pending = data.partition(heads.END)
        request = heads.parse(head, self._proxy.vault)
        whole = 0 if request.connect else request.length
        if not request.chunked and len(self._wire.pending) > whole:
            raise Refused(400, "more than one request came at once", str(request.target))
        return request

    def _receive(self) -> bytes:
        """Return the next bytes of the client, within the time of the connection's start."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Refused(408, "the request took too long")
        self._client.settimeout(left)
        try:
            data = self._client.recv(1 << 14)
        except TimeoutError:
            raise Refused(408, "the request took too long") from None
        if not data:
            raise Closed
        return data

    def _check(self, target: Target) -> None:
        broker = self._proxy.broker
        allowed = any(targets.allows(pattern, target) for pattern in self._proxy.patterns)
        if not allowed and broker is not None and self._order.asks and not target.address:
            allowed = broker.allows(target)
            if not allowed:
                raise Refused(403, f"{target} is not in network.allow, and on_ask has not allowed it", str(target))
        if not allowed:
            remedy = f"allow it with --allow {target} or Network(allow=[{str(target)!r}])"
            raise Refused(403, f"{target} is not in network.allow; {remedy}", str(target))

    def _connection(self, request: Request) -> socket.socket | ssl.SSLSocket:
        """Return a connection to the request's target, over TLS if it came by the gateway."""
        server = dial.connect(request.target, self._order.connect_seconds)
        if not request.secure:
            return server
        assert self._proxy.vault is not None
        return self._proxy.vault.secured(server, request.target)

    # -- plain HTTP --------------------------------------------------------------------------------------------

    def _forward(self, request: Request) -> None:
        wire = self._wire
        if request.expects:
            self._client.sendall(_CONTINUE)
        body = Body(wire, request.length, chunked=request.chunked)
        wire.send(SENT, request.head)
        wire.run(body.send, self._receive_reply)

    def _forward_in_turn(self, request: Request) -> None:
        """Forward the whole request before the reply: a TLS connection serves one thread at a time."""
        if request.expects:
            self._client.sendall(_CONTINUE)
        self._wire.send(SENT, request.head)
        Body(self._wire, request.length, chunked=request.chunked).forward()
        self._receive_reply()

    def _receive_reply(self) -> None:
        """Forward the reply. After it, the connection ends, so that nothing can follow the request."""
        wire = self._wire
        data = b""
        while True:
            while heads.END not in data:
                more = wire.read(wire.server)
                if not more or len(data) > heads.MOST_HEAD:
                    raise Refused(502, "the server's answer has no complete head", wire.target)
                data += more
            head, _, data = data.partition(heads.END)
            status, head = heads.reply_head(head)
            wire.send(RECEIVED, head)
            if status >= 200:
                break
        wire.send(RECEIVED, data)
        while data := wire.read(wire.server):
            wire.send(RECEIVED, data)
        wire.abort()  # wakes up the other way, which waits for the client's end

    # -- tunnels -----------------------------------------------------------------------------------------------

    def _tunnel(self, target: Target) -> None:
        self._client.sendall(_ESTABLISHED)
        if not target.address:
            self._check_names(target)
        self._wire.run(self._wire.send_all, self._wire.receive_all)

    def _check_names(self, target: Target) -> None:
        """Let the start of a TLS connection pass, if it names ``target`` and nothing else."""
        wire, records = self._wire, tls.Records()
        try:
            wire.send(SENT, self._hello(records, target, first=True))
            if self._asks_again():
                wire.send(SENT, self._hello(records, target, first=False))
        except tls.TlsError as error:
            wire.refuse(Refused(403, f"{error}; a tunnel to a name carries TLS to that name only", str(target)))
            self._client.sendall(tls.UNRECOGNIZED_NAME)
            raise Closed from None
        wire.pending = records.rest()
        self._client.settimeout(self._order.idle_seconds)

    def _hello(self, records: tls.Records, target: Target, *, first: bool) -> bytes:
        """Return the client's bytes up to and with a ClientHello that names ``target``."""
        hello, passed, data = tls.Hello(), b"", b""
        self._deadline = time.monotonic() + self._order.connect_seconds
        while True:
            for kind, content, whole in records.feed(data):
                passed += whole
                if kind == tls.HANDSHAKE:
                    body = hello.feed(content)
                    name = target.host if body is None else tls.server_name(body)
                    if name != target.host:
                        raise tls.TlsError(f"the TLS connection is for {name!r:.80}")
                    if body is not None:
                        return passed
                elif first or len(passed) > _MOST_EARLY:
                    raise tls.TlsError("a TLS connection must begin with a ClientHello")
            data = self._receive()

    def _asks_again(self) -> bool:
        """Forward the server's first bytes; return whether they ask for a second ClientHello."""
        wire, answer, again = self._wire, tls.FirstAnswer(), None
        while again is None:
            data = wire.read(wire.server)
            if not data:
                raise Closed
            again = answer.feed(data)
            wire.send(RECEIVED, data)
        return again

    def _answer(self, refusal: Refused) -> None:
        """Tell the client why, and drain what it still sends: otherwise a reset could overtake the answer."""
        reason = f"stockade: {one_line(refusal.reason)}"
        body = f"{reason}\n".encode()
        head = f"HTTP/1.1 {refusal.status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        until = time.monotonic() + _LINGER_SECONDS
        self._client.settimeout(_LINGER_SECONDS)
        self._client.sendall(head.encode() + b"Connection: close" + heads.END + body)
        self._client.shutdown(socket.SHUT_WR)
        while time.monotonic() < until and self._client.recv(1 << 16):
            pass
