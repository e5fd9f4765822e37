"""Parse the head of a request strictly (RFC 9112): whatever two parsers could read in two ways is refused."""

from __future__ import annotations

from stockade.core import targets
from stockade.core.record import Record
from stockade.warden.proxy.account import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.targets import Target
    from stockade.warden.proxy.vault import Vault

MOST_HEAD = 1 << 15
END = b"\r\n\r\n"
_MOST_FIELDS = 100
_MOST_LENGTH = 15  # digits
_TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_VISIBLE = frozenset(range(0x21, 0x7F))
_VALUE = frozenset((0x09, *range(0x20, 0x7F), *range(0x80, 0x100)))
_OF_ONE_HOP = frozenset((
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate", b"te", b"trailer",
    b"upgrade", b"expect", b"host", b"transfer-encoding", b"content-length", b"http2-settings",
))  # fmt: skip
_HTTP, _HTTPS = 80, 443


class Request(Record):
    """A request that can be read in one way only."""

    target: Target
    connect: bool
    """Whether the client asks for a tunnel to the target."""
    head: bytes = b""
    """The head to send to the target's server."""
    length: int = 0
    """Bytes of the body."""
    chunked: bool = False
    secure: bool = False
    """Whether the request came by the gateway, so that it leaves over TLS."""
    expects: bool = False
    """Whether the client waits for ``100 Continue`` before it sends the body."""


def parse(head: bytes, vault: Vault | None = None) -> Request:
    """Return the request that ``head`` asks for, up to and without its empty line. Raises ``Refused``.

    With a ``vault``, a path such as ``/api.example.com/v1`` goes by the gateway, and secrets are filled in.
    """
    first, *lines = head.split(b"\r\n")
    method, url, version = _request_line(first)
    if len(lines) > _MOST_FIELDS:
        raise _bad("too many header fields")
    fields = [_field(line) for line in lines]
    hosts = [value for name, value in fields if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == b"HTTP/1.1" and method != b"CONNECT"):
        raise _bad("a request needs exactly one Host field")
    if method == b"CONNECT":
        target = _target(url, None)
        if hosts:
            _check_host(hosts[0], target, target.port)
        return Request(target=target, connect=True)
    secure = vault is not None and url.startswith(b"/")
    target, path = _by_gateway(url) if secure else _absolute(url)
    if hosts and not secure:
        _check_host(hosts[0], target, _HTTP)
    if vault is not None:
        if secure and method == b"TRACE":
            raise _bad("TRACE makes a server repeat the head, and a secret in it")
        if secure:
            vault.check(target)
        # No field of one hop is filled in: what the proxy makes of it would tell the guest about the value.
        fields = [
            (name, value if name in _OF_ONE_HOP else vault.filled(name, value, target, by_gateway=secure))
            for name, value in fields
        ]
    length, chunked = _body(fields, version)
    expects = any(name == b"expect" for name, _ in fields)
    host = targets.bracketed(target.host) if target.port == (_HTTPS if secure else _HTTP) else str(target)
    origin = _origin_head(b" ".join((method, path, version)), host, fields, length, chunked=chunked)
    return Request(
        target=target,
        connect=False,
        head=origin,
        length=length or 0,
        chunked=chunked,
        secure=secure,
        expects=expects,
    )


def reply_head(head: bytes) -> tuple[int, bytes]:
    """Return the status of a server's ``head``, and the head that announces the end of the connection.

    Raises ``Refused`` if this is not the head of an HTTP/1 response.
    """
    first, *lines = head.split(b"\r\n")
    version, _, rest = first.partition(b" ")
    status = rest[:3]
    if version not in (b"HTTP/1.0", b"HTTP/1.1") or not status.isdigit() or rest[3:4] not in (b" ", b""):
        raise Refused(502, "the server's answer is not HTTP/1")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _CLOSING]
    number = int(status)
    if number == 101 or number < 100:
        raise Refused(502, "the server switched to another protocol")
    closing = [] if number < 200 else [b"Connection: close"]
    return number, b"\r\n".join([first, *kept, *closing]) + END


_CLOSING = (b"connection", b"keep-alive", b"proxy-connection", b"upgrade")


def _request_line(line: bytes) -> tuple[bytes, bytes, bytes]:
    parts = line.split(b" ")
    if len(parts) != 3:
        raise _bad("the request line needs a method, a URL and a version, with one space between them")
    method, url, version = parts
    if not method or len(method) > 32 or not _TOKEN.issuperset(method):
        raise _bad("the method is not a token")
    if not url or not _VISIBLE.issuperset(url):
        raise _bad("the URL has characters that a URL cannot have")
    if version not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise _bad("the proxy speaks HTTP/1.0 and HTTP/1.1")
    return method, url, version


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not (colon and name and _TOKEN.issuperset(name)):
        raise _bad("a header field needs a name and a colon, without a space between them")
    if not _VALUE.issuperset(value):
        raise _bad("a header field has control characters")
    return name.lower(), value.strip(b" \t")


def _target(text: bytes, default_port: int | None) -> Target:
    try:
        return targets.parse(text.decode("ascii"), default_port)
    except ValueError as error:
        raise _bad(str(error)) from None


def _absolute(url: bytes) -> tuple[Target, bytes]:
    scheme, slashes, rest = url.partition(b"://")
    if not slashes or url.startswith(b"/"):
        raise _bad("this is a proxy: the request needs a whole URL, such as http://example.com/")
    if scheme.lower() != b"http":
        raise _bad("only http:// passes here; use CONNECT for https://")
    return _split(rest, _HTTP)


def _by_gateway(path: bytes) -> tuple[Target, bytes]:
    """Return the target of ``/HOST/PATH``, and its path."""
    return _split(path[1:], _HTTPS)


def _split(rest: bytes, default_port: int) -> tuple[Target, bytes]:
    ends = [at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0]
    end = min(ends, default=len(rest))
    path = rest[end:]
    if b"#" in rest:
        raise _bad("a URL in a request has no fragment")
    return _target(rest[:end], default_port), path if path.startswith(b"/") else b"/" + path


def _check_host(value: bytes, target: Target, default_port: int) -> None:
    try:
        named = targets.parse(value.decode("ascii"), default_port)
    except ValueError:
        named = None
    if named != target:
        shown = value[:80].decode("ascii", "replace")
        raise Refused(403, f"the Host field names {shown!r}, and the request {target}", str(target))


def _body(fields: list[tuple[bytes, bytes]], version: bytes) -> tuple[int | None, bool]:
    lengths = [value for name, value in fields if name == b"content-length"]
    codings = [value for name, value in fields if name == b"transfer-encoding"]
    if codings:
        if lengths or len(codings) > 1 or codings[0].lower() != b"chunked" or version != b"HTTP/1.1":
            raise _bad("Transfer-Encoding must be 'chunked', once, in HTTP/1.1, and without Content-Length")
        return None, True
    if not lengths:
        return None, False
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > _MOST_LENGTH:
        raise _bad("Content-Length must be one number")
    return int(lengths[0]), False


def _origin_head(
    first: bytes, host: str, fields: list[tuple[bytes, bytes]], length: int | None, *, chunked: bool
) -> bytes:
    """Return the head for the server, written anew: one Host, one length, and the end of the connection."""
    named = {word.strip().lower() for name, value in fields if name == b"connection" for word in value.split(b",")}
    lines = [first, b"Host: " + host.encode("ascii")]
    lines += [name + b": " + value for name, value in fields if name not in _OF_ONE_HOP and name not in named]
    if chunked:
        lines.append(b"Transfer-Encoding: chunked")
    elif length is not None:
        lines.append(b"Content-Length: %d" % length)
    return b"\r\n".join([*lines, b"Connection: close"]) + END


def _bad(reason: str) -> Refused:
    return Refused(400, reason)
