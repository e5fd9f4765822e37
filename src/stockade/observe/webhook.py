"""A webhook: an address that gets a POST with JSON, and that cannot lead into the own network by a name."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

from stockade.core import targets
from stockade.core.errors import JobError, StockadeError
from stockade.core.hints import known_options
from stockade.warden.proxy import dial
from stockade.warden.proxy.account import Refused

SIGNATURE = "Stockade-Signature"
_PORTS = {"https": 443, "http": 80}
_LONGEST_URL = 2000
_LONGEST_LINE = 1000
_TRIES = 3


class WebhookError(StockadeError):
    """A webhook was not delivered."""


class Webhook:
    """An address for alerts. Each one is a POST of JSON, and any answer from 200 to 299 means that it arrived.

    url: ``https://HOST/PATH``, or ``http://``. A name is resolved once for each connection, and the connection goes to
        the very address that was checked: an address of the own network is refused. No redirect is followed.
    secret: with it, the field ``Stockade-Signature`` of each request has the time in seconds since the epoch and the
        HMAC-SHA256 of ``TIME.BODY`` in hexadecimal: ``t=TIME,v1=HMAC``.
    private: whether the URL may name an address of the own network, as in ``http://127.0.0.1:9000/alerts``. A name
        never leads there.
    timeout: seconds for one delivery.

    Raises ``JobError`` for a URL that cannot be used.
    """

    @known_options
    def __init__(self, url: str, *, secret: str | None = None, private: bool = False, timeout: float = 5.0) -> None:
        try:
            self._target, self._path, self._context = _parsed(url)
            closed = targets.why_closed(self._target.address) if self._target.address else ""
            if closed and not private:
                raise ValueError(f"{self._target.host} is {closed}; pass private=True if that is meant")
            if not 0 < timeout <= 60:
                raise ValueError(f"timeout = {timeout!r}: from 0 to 60 seconds")
        except ValueError as error:
            raise JobError(f"webhook {url!r:.200}: {error}") from None
        self._secret, self._timeout = secret, timeout

    def __repr__(self) -> str:
        """Name the server. The path may be a secret."""
        return f"Webhook({str(self._target)!r})"

    def deliver(self, body: bytes) -> None:
        """Send ``body``, which is JSON; try three times. Raises ``WebhookError`` with the last reason."""
        for attempt in range(1, _TRIES + 1):
            try:
                return self._send(body)
            except (Refused, OSError, ValueError) as error:
                if attempt == _TRIES or (isinstance(error, Refused) and error.status == 403):
                    raise WebhookError(f"{self._target} did not take it: {error}") from None
            time.sleep(attempt)
        return None

    def _send(self, body: bytes) -> None:
        with ExitStack() as stack:
            sock = stack.enter_context(socket.socket(fileno=dial.connect(self._target, self._timeout).detach()))
            sock.settimeout(self._timeout)
            # Each single wait below has the timeout. This ends all of them together.
            watched = stack.enter_context(sock.dup())
            watchdog = threading.Timer(self._timeout, _shut_down, (watched,))
            watchdog.daemon = True
            watchdog.start()
            stack.callback(watchdog.cancel)
            if self._context is not None:
                sock = stack.enter_context(self._context.wrap_socket(sock, server_hostname=self._target.host))
            sock.sendall(self._head(body) + body)
            status = _status(sock)
        if not 200 <= status < 300:
            raise ValueError(f"the answer has the status {status}")

    def _head(self, body: bytes) -> bytes:
        default = self._target.port == _PORTS["https" if self._context else "http"]
        host = targets.bracketed(self._target.host) if default else str(self._target)
        lines = [
            f"POST {self._path} HTTP/1.1",
            f"Host: {host}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "User-Agent: stockade",
            "Connection: close",
        ]
        if self._secret is not None:
            at = int(time.time())
            made = hmac.new(self._secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
            lines.append(f"{SIGNATURE}: t={at},v1={made}")
        return "\r\n".join([*lines, "", ""]).encode("ascii")


def _parsed(url: str) -> tuple[targets.Target, str, ssl.SSLContext | None]:
    if not isinstance(url, str) or len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(f"expected a URL in ASCII of at most {_LONGEST_URL} characters")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        raise ValueError("expected https://HOST/PATH or http://HOST/PATH")
    if "@" in parts.netloc or parts.fragment:
        raise ValueError("a user or a fragment is not sent; put what the server needs into the path")
    target = targets.parse(parts.netloc, _PORTS[parts.scheme])
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return target, path, ssl.create_default_context() if parts.scheme == "https" else None


def _status(sock: socket.socket) -> int:
    """Read the status of the answer, and nothing else. Raises ``ValueError`` for something else than HTTP/1."""
    line = b""
    while b"\n" not in line and len(line) < _LONGEST_LINE:
        piece = sock.recv(_LONGEST_LINE)
        if not piece:
            break
        line += piece
    version, _, rest = line.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise ValueError("the server did not answer in time, or not in HTTP/1")
    return int(rest[:3])


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
