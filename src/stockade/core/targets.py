"""Targets of a guest's connections: names, addresses, the patterns that allow them, and public addresses.

The policy, its ceiling and the proxy share these pure functions. A name is plain ASCII. An address has one spelling
only, so that no other spelling of it passes for a name.
"""

from __future__ import annotations

import _socket as socket  # the ``socket`` module imports ``selectors`` and ``enum``

from stockade.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_HEX = frozenset("0123456789abcdef")
_LONGEST_NAME, _LONGEST_LABEL = 253, 63
_MOST_PORT = 65535
_V4, _V6 = 4, 16

# Special-purpose blocks of IANA's registries, and addresses of clouds that answer only to their own machines.
_CLOSED_V4 = {
    "0.0.0.0/8": "an address of this network",
    "10.0.0.0/8": "a private address",
    "100.64.0.0/10": "an address of a provider's own network (RFC 6598)",
    "127.0.0.0/8": "a loopback address",
    "168.63.129.16/32": "a metadata address of a cloud",
    "169.254.0.0/16": "a link-local address, where clouds keep their metadata",
    "172.16.0.0/12": "a private address",
    "192.0.0.0/24": "a special-purpose address",
    "192.0.2.0/24": "an address for documentation",
    "192.88.99.0/24": "a 6to4 relay",
    "192.168.0.0/16": "a private address",
    "198.18.0.0/15": "an address for benchmarks",
    "198.51.100.0/24": "an address for documentation",
    "203.0.113.0/24": "an address for documentation",
    "224.0.0.0/4": "a multicast address",
    "240.0.0.0/4": "a reserved address",
}
_CLOSED_V6 = {
    "2001::/23": "a special-purpose address (Teredo and others)",
    "2001:db8::/32": "an address for documentation",
    "2002::/16": "a 6to4 address, which contains an IPv4 address",
    "3fff::/20": "an address for documentation",
}
_GLOBAL_V6 = "2000::/3"
_OTHER_V6 = {
    "::ffff:0:0/96": "an IPv4 address in IPv6 form",
    "64:ff9b::/96": "an IPv4 address in IPv6 form (NAT64)",
    "64:ff9b:1::/48": "an IPv4 address in IPv6 form (NAT64)",
    "::1/128": "a loopback address",
    "fc00::/7": "a private address",
    "fe80::/10": "a link-local address",
    "ff00::/8": "a multicast address",
}


class Target(Record):
    """A name or an address, with a port."""

    host: str
    """The name in lower case, or the address as the kernel writes it."""
    port: int
    address: bytes = b""
    """The address in network byte order; empty for a name."""

    def __str__(self) -> str:
        """Write the target as an allow-list names it."""
        return f"{bracketed(self.host)}:{self.port}"


def bracketed(host: str) -> str:
    """Return ``host`` as the part of a URL before the port."""
    return f"[{host}]" if ":" in host else host


def parse(text: str, default_port: int | None = None) -> Target:
    """Return the target ``HOST:PORT``. Raises ``ValueError`` with the reason if the text is anything else.

    ``default_port`` is the port of a text that names none; without it, the text must name one.
    """
    host, port = _split(text)
    if text.endswith(":") or (not port and default_port is None):
        raise ValueError(f"expected HOST:PORT; did you mean '{text.rstrip(':') or 'packages.example.org'}:443'?")
    number = default_port if not port else _port(port)
    if host.startswith("["):
        address = _packed(socket.AF_INET6, host[1:-1])
        if not address or "%" in host:
            raise ValueError(f"{host} is not an IPv6 address in brackets (without a zone)")
        return Target(host=socket.inet_ntop(socket.AF_INET6, address), port=number or 0, address=address)
    host = host.lower() if host.isascii() else host
    if _looks_numeric(host):
        address = _packed(socket.AF_INET, host)
        if not address or socket.inet_ntop(socket.AF_INET, address) != host:
            raise ValueError(f"{host} is neither a name nor an IPv4 address in its usual form, such as 192.0.2.1")
        return Target(host=host, port=number or 0, address=address)
    _check_name(host)
    return Target(host=host, port=number or 0)


def parse_pattern(text: str) -> Target:
    """Return a pattern of an allow-list: a target, or ``*.DOMAIN:PORT`` for every name below a domain.

    Raises ``ValueError`` with the reason if the text is not a pattern.
    """
    wild = text.startswith("*.")
    scheme, is_url, rest = text.partition("://")
    if is_url:
        host = rest.split("/")[0]
        meant = host if ":" in host else f"{host}:{80 if scheme == 'http' else 443}"
        raise ValueError(f"expected HOST:PORT, not a URL; did you mean {meant!r}?")
    try:
        target = parse(text[2:] if wild else text)
    except ValueError as error:
        if "*" in text.removeprefix("*."):
            raise ValueError("'*' may only be the first label, as in *.example.com:443") from None
        raise ValueError(str(error)) from None
    if wild and (target.address or "." not in target.host):
        raise ValueError("'*.' needs a domain of at least two labels, as in *.example.com:443")
    if target.host == "localhost" or target.host.endswith(".localhost"):
        raise ValueError(
            f"{target.host} is the sandbox itself; for a service of this host, list 127.0.0.1:{target.port}"
        )
    if target.address[:12] == b"\0" * 10 + b"\xff\xff":
        raise ValueError("write the IPv4 address itself")
    if target.address and not any(target.address):
        raise ValueError(f"{bracketed(target.host)} names no machine: the kernel would connect to this host instead")
    return target.adding(host=f"*.{target.host}") if wild else target


def allows(pattern: Target, target: Target) -> bool:
    """Return whether ``pattern`` allows ``target``. An address is allowed only by itself; a name never allows one."""
    if pattern.port != target.port or pattern.address != target.address:
        return False
    if target.address or not pattern.host.startswith("*."):
        return pattern.host == target.host
    return target.host.endswith(pattern.host[1:]) and target.host != pattern.host[1:]


def narrower(ours: Target, most: Target) -> Target | None:
    """Return the pattern that allows what both patterns allow, or ``None`` if they have nothing in common."""
    if ours == most:
        return ours
    return next((one for one, other in ((ours, most), (most, ours)) if allows(other, one)), None)


def intersection(ours: Iterable[Target], most: Iterable[Target]) -> tuple[Target, ...]:
    """Return patterns that allow exactly what both lists allow."""
    limits = tuple(most)
    found = (narrower(one, other) for one in ours for other in limits)
    return tuple(dict.fromkeys(each for each in found if each is not None))


def why_closed(address: bytes) -> str:
    """Return why no name may lead to ``address``, or an empty text if the address is public."""
    if len(address) == _V4:
        return _first(_CLOSED_V4, address)
    if not _lies_in(address, _GLOBAL_V6):
        return _first(_OTHER_V6, address) or "not a global address"
    return _first(_CLOSED_V6, address)


def _first(blocks: dict[str, str], address: bytes) -> str:
    return next((reason for block, reason in blocks.items() if _lies_in(address, block)), "")


def _lies_in(address: bytes, block: str) -> bool:
    text, _, length = block.partition("/")
    network = socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    if len(network) != len(address):
        return False
    free = 8 * len(address) - int(length)
    return int.from_bytes(address, "big") >> free == int.from_bytes(network, "big") >> free


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, bracket, port = text.partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ValueError("expected [ADDRESS]:PORT")
        return host + bracket, port[1:]
    host, _, port = text.partition(":")
    if ":" in port:
        raise ValueError("an IPv6 address needs brackets, as in [2001:db8::1]:443")
    return host, port


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= 5 and int(text) <= _MOST_PORT):
        raise ValueError(f"{text!r:.40} is not a port from 1 to {_MOST_PORT}")
    return int(text)


def _packed(family: int, text: str) -> bytes:
    try:
        return socket.inet_pton(family, text)
    except (OSError, ValueError, UnicodeError):
        return b""


def _looks_numeric(host: str) -> bool:
    """Return whether some resolver may read ``host`` as an address: its last part is a number (WHATWG URL, 4.3)."""
    last = host.removesuffix(".").rpartition(".")[2]
    return last.isdigit() or (last[:2] == "0x" and _HEX.issuperset(last[2:]))


def _check_name(host: str) -> None:
    if not host.isascii():
        raise ValueError(f"{host!r:.80} is not ASCII; write an international name in its xn-- form")
    if host.endswith("."):
        raise ValueError("write the name without the dot at its end")
    if not host or len(host) > _LONGEST_NAME or not all(map(_is_label, host.split("."))):
        raise ValueError(f"{host!r:.80} is not a host name")


def _is_label(label: str) -> bool:
    fits = 0 < len(label) <= _LONGEST_LABEL and _LETTERS.issuperset(label)
    return fits and label[0] != "-" and label[-1] != "-"
