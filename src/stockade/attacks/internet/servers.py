"""The servers of the small internet: HTTP, TLS and DNS. Each request is noted, for tests to read."""

from __future__ import annotations

import json
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

NOTES = "notes"
_NAMES: dict[str, list[list[str]]] = {}
"""The answers of the resolver for each name, one after another; the last one stays."""


def note(**what: Any) -> None:
    """Write a note, which tests read."""
    with Path(NOTES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


class Handler(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    protocol_version = "HTTP/1.1"
    timeout = 0.5

    def do_GET(self) -> None:
        """Answer, redirect, send much, or send slowly."""
        length = int(self.headers.get("Content-Length") or 0)
        body = self._chunks() if self.headers.get("Transfer-Encoding") == "chunked" else self.rfile.read(length)
        place = self.connection.getsockname()
        name = getattr(self.connection, "named", None)
        note(
            at=list(place[:2]),
            method=self.command,
            path=self.path,
            host=self.headers.get("Host"),
            body=len(body),
            sni=name,
            key=self.headers.get("Authorization") or self.headers.get("X-Api-Key"),
            headers=self.headers.items(),
        )
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path == "/redirect":
            self._reply(302, b"", Location=query["to"])
        elif url.path == "/bytes":
            self._reply(200, bytes(int(query["count"])))
        elif url.path == "/switch" or self.headers.get("Upgrade") == "raw":
            self.send_response(101)
            self.end_headers()  # what follows on the connection is another request
            self.close_connection = False
        elif url.path == "/slow":
            time.sleep(0.5)
            self._reply(200, b"")
        elif url.path.startswith("/files/"):
            path = Path("files", url.path.removeprefix("/files/"))
            path = path / "index.html" if path.is_dir() else path
            self._reply(200 if path.is_file() else 404, path.read_bytes() if path.is_file() else b"")
        else:
            answer = {
                "at": place[0],
                "host": self.headers.get("Host"),
                "path": self.path,
                "headers": dict(self.headers),
                "body": len(body),
            }
            self._reply(200, json.dumps(answer).encode())

    do_POST = do_PUT = do_HEAD = do_TRACE = do_GET  # noqa: N815

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _reply(self, status: int, body: bytes, **fields: str) -> None:
        self.send_response(status)
        for key, value in fields.items():
            self.send_header(key, value)
        if self.path.endswith(".html") or self.path.endswith("/"):
            self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Write no log."""


class Server(ThreadingHTTPServer):
    """HTTP over IPv4 and IPv6, with TLS if there is a context."""

    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 64  # the default of 5 makes a busy kernel drop connections, which come again a second later
    context: ssl.SSLContext | None = None

    def server_bind(self) -> None:
        """Bind without a look-up of the host's own name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "server", self.server_address[1]

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands in the connection's own thread."""
        if self.context is not None:
            place = request.getsockname()[:2]
            try:
                request = self.context.wrap_socket(request, server_side=True)
            except OSError as error:
                note(at=list(place), failed=str(error))
                return
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write nothing: attacks end connections in every way."""


def tls(curve: str | None = None) -> ssl.SSLContext:
    """Return a context that notes the name in each ClientHello. With ``curve``, it asks for a second one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("server.pem")
    if curve:
        context.set_ecdh_curve(curve)
    context.sni_callback = lambda sock, name, _: note(at=list(sock.getsockname()[:2]), sni=name)  # type: ignore[attr-defined]
    return context


def serve(port: int, context: ssl.SSLContext | None = None) -> None:
    """Serve ``port`` at every address."""
    server = Server(("::", port), Handler)
    server.context = context
    threading.Thread(target=server.serve_forever, daemon=True).start()


def resolve() -> None:
    """Answer questions for IPv4 and IPv6 addresses from ``names.json``, which tests may change."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((sys.argv[1], 53))
    while True:
        question, client = sock.recvfrom(512)
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1 : at + 1 + question[at]].decode())
            at += 1 + question[at]
        kind = struct.unpack(">H", question[at + 1 : at + 3])[0]
        name = ".".join(labels).lower()
        names = json.loads(Path("names.json").read_text(encoding="utf-8"))
        answers = names.get(name) or names.get(f"*.{name.partition('.')[2]}")
        asked = _NAMES.setdefault(name, [])
        note(asked=name, kind=kind)
        addresses = (
            answers[min(len([each for each in asked if each == [str(kind)]]), len(answers) - 1)] if answers else []
        )
        asked.append([str(kind)])
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        found = [each for each in addresses if family and (":" in each) == (family == socket.AF_INET6)]
        head = question[:2] + struct.pack(">HHHHH", 0x8180 if answers else 0x8183, 1, len(found), 0, 0)
        records = b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(packed)) + packed
            for packed in (socket.inet_pton(family, each) for each in found)  # type: ignore[arg-type]
        )
        sock.sendto(head + question[12 : at + 5] + records, client)


if __name__ == "__main__":
    sys.stdin.readline()  # the network is there
    Path(NOTES).touch()
    for number in (80, 8080, 3128):
        serve(number)
    serve(443, tls())
    serve(8443, tls("secp384r1"))
    threading.Thread(target=resolve, daemon=True).start()
    print("ready", flush=True)
    while True:
        time.sleep(60)
