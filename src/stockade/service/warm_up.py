"""Answer a few requests inside the process, so that all modules that an answer needs are loaded.

The front can open no file later, and libraries import many modules at their first use. None of these requests reaches
the database or the queue.
"""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import wsproto
from wsproto import events

from stockade.core.errors import SetupError
from stockade.languages.registry import BUILT_IN
from stockade.runs.result import Result
from stockade.service import mcp
from stockade.service.keys import Key
from stockade.service.queue import CANCELLED
from stockade.service.requests import RunRequest, record_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

    from stockade.service.state import State


def _archive() -> bytes:
    """Return a zip archive in base64. Its names need an encoding, which is a module."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a", "")
    return b64encode(packed.getvalue())


_SOCKET = "WEBSOCKET"
_NO_SESSIONS = (429, 501, 503)
"""The operator allows none, or MCP is not installed."""
_INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "warm-up", "version": "1"}}
_REQUESTS = (
    ("GET", "/openapi.json", b"", 200),
    ("GET", "/healthz", b"", 200),
    ("GET", "/nothing", b"", 404),
    ("PATCH", "/v1/runs", b"", 405),
    ("POST", "/v1/runs", b"{", 422),
    ("POST", "/v1/runs", b'{"source": 5}', 422),
    ("POST", "/v1/runs", b'{"source": "", "limits": {"memroy": 1}}', 422),
    ("POST", "/v1/runs", b'{"source": "", "language": "perl"}', 422),
    ("POST", "/v1/batches", b'{"runs": []}', 422),
    ("POST", "/v1/kill", b"{}", 422),
    ("POST", "/v1/sandboxes", b'{"max_lifetime": 0}', 422),
    ("POST", "/v1/sandboxes", b"{}", 503),
    (_SOCKET, "/v1/sandboxes/x/terminal", b"", 403),
    ("POST", "/sandbox-fusion/run_code", b'{"code": "", "language": "python", "files": {"x": "?"}}', 422),
    ("GET", "/judge0/config_info", b"", 200),
    ("GET", "/judge0/languages/x", b"", 422),
    ("POST", "/judge0/nothing", b"", 501),
    ("POST", "/judge0/submissions", b'{"language_id": 71, "source_code": "", "memory_limit": 0}', 422),
    ("POST", "/judge0/submissions", b'{"language_id": 89, "additional_files": "%s"}' % _archive(), 422),
    ("POST", "/judge0/submissions/batch", b'{"submissions": []}', 400),
)


async def warm_up(app: ASGIApp, state: State) -> None:
    """Answer requests of each kind. Raises ``SetupError`` if one is not answered as it should be."""
    for method, path, body, status in _REQUESTS:
        found = await _status(app, method, path, body)
        if found != status:
            raise SetupError(f"the service answers {method} {path} with {found} instead of {status}; report this")
    for language in BUILT_IN:
        record_of(RunRequest(source="", language=language), state.policies)
    files = {"a": "", "b": {"base64": ""}}
    whole = {"argv": ["true"], "files": files, "artifacts": ["*"], "limits": {"memory": "64MiB"}, "stdin": ""}
    record_of(RunRequest.model_validate_json(json.dumps(whole)), state.policies)
    Result.from_dict(json.loads(json.dumps(CANCELLED.to_dict()))).as_json()
    state.metrics.text({})
    _open_socket()
    await _mcp(app)


def _open_socket() -> None:
    """Open a WebSocket between two ends in this process, and close it."""
    client, server = (
        wsproto.WSConnection(kind) for kind in (wsproto.ConnectionType.CLIENT, wsproto.ConnectionType.SERVER)
    )
    turns = (
        (client, server, events.Request(host="localhost", target="/")),
        (server, client, events.AcceptConnection()),
        (server, client, events.Message(data=b"x")),
        (client, server, events.Message(data="x")),
        (client, server, events.Ping()),
        (server, client, events.CloseConnection(code=1000, reason="x")),
    )
    for sender, receiver, event in turns:
        receiver.receive_data(sender.send(event))
        list(receiver.events())


async def _mcp(app: ASGIApp) -> None:
    """Have an MCP session with a call that no worker takes. Raises ``SetupError``."""
    opened, headers, _ = await _answer(app, "POST", mcp.PATH, _message("initialize", 1, _INITIALIZE))
    if opened in _NO_SESSIONS:
        return
    session = (b"mcp-session-id", headers.get(b"mcp-session-id", b""))
    answers = [
        (await _answer(app, "POST", mcp.PATH, body, session))[2]
        for body in (
            _message("notifications/initialized"),
            _message("tools/list", 2),
            _message("tools/call", 3, {"name": "run_python", "arguments": {"code": "1"}}),
            _message("tools/call", 4, {"name": "plan"}),
        )
    ]
    ended = (await _answer(app, "DELETE", mcp.PATH, b"", session))[0]
    if opened != 200 or ended != 200 or b"no worker" not in answers[2]:
        raise SetupError(f"the service answers MCP with {opened}, {answers!r:.400} and {ended}; report this")


def _message(method: str, number: int | None = None, params: Any = None) -> bytes:
    message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return json.dumps(message | ({} if number is None else {"id": number})).encode()


async def _status(app: ASGIApp, method: str, path: str, body: bytes) -> int:
    return (await _answer(app, method, path, body))[0]


async def _answer(
    app: ASGIApp, method: str, path: str, body: bytes, *more: tuple[bytes, bytes]
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return the status, the headers and the body of an answer."""
    accept = (b"accept", b"application/json, text/event-stream")
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "scheme": "http",
        "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), accept, *more],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "state": {"key": Key(0, "", operator=True)},
    }  # fmt: skip
    if method == _SOCKET:
        scope |= {
            "type": "websocket",
            "scheme": "ws",
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        scope["headers"] = [(b"host", b"localhost"), (b"origin", b"http://elsewhere")]
    begun: list[Message] = []
    pieces, left = [], [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()  # the client stays
        return left.pop()

    async def send(message: Message) -> None:
        begun.extend([message] if message["type"].endswith("http.response.start") else [])
        pieces.append(message.get("body", b""))

    await app(scope, receive, send)
    return int(begun[0]["status"]), dict(begun[0]["headers"]), b"".join(pieces)
