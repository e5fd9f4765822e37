"""Resolve a name once, refuse what it must not lead to, and connect to the very address that was checked."""

from __future__ import annotations

import _socket as socket
import os
import time

from stockade.core import targets
from stockade.warden.proxy.account import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.targets import Target

_MOST_ADDRESSES = 4
_LEAST_SECONDS = 0.1
"""Each address is tried for so long at least."""
_FAMILIES = {4: socket.AF_INET, 16: socket.AF_INET6}


def prepare_resolver() -> None:
    """Look up whole names only, and give up early: no search list completes a name (resolv.conf(5))."""
    os.environ["LOCALDOMAIN"] = "."
    os.environ["RES_OPTIONS"] = "timeout:2 attempts:2"


def connect(target: Target, seconds: float) -> socket.socket:
    """Return a connection to ``target``. Raises ``Refused`` if it leads nowhere, or where it must not lead.

    ``seconds`` is the time for all addresses together, after the look-up.
    """
    errors = []
    due = time.monotonic() + seconds
    for address in [target.address] if target.address else _resolved(target):
        sock = socket.socket(_FAMILIES[len(address)], socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.settimeout(max(_LEAST_SECONDS, due - time.monotonic()))
            sock.connect(_place(address, target.port))
        except OSError as error:
            sock.close()
            errors.append(str(error))
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise Refused(502, f"{target} cannot be reached: {errors[-1]}", str(target))


def _resolved(target: Target) -> list[bytes]:
    """Return the public addresses of a name, in the resolver's order."""
    try:
        found = socket.getaddrinfo(target.host.encode("ascii"), target.port, 0, socket.SOCK_STREAM)
    except OSError as error:
        raise Refused(502, f"{target.host} cannot be resolved: {error}", str(target)) from None
    closed = ""
    public = []
    for family, _, _, _, place in found:
        try:
            address = socket.inet_pton(family, str(place[0]))
        except (OSError, ValueError):  # an address with a zone, which only local ones have
            closed = closed or f"{place[0]}, a link-local address"
            continue
        reason = targets.why_closed(address) or ("an address of this host" if _is_own(address) else "")
        if reason:
            closed = closed or f"{place[0]}, {reason}"
        elif address not in public:
            public.append(address)
    if not public:
        remedy = "a name never leads there; list the address itself if that is meant"
        raise Refused(403, f"{target.host} leads to {closed}: {remedy}", str(target))
    return public[:_MOST_ADDRESSES]


def _is_own(address: bytes) -> bool:
    """Return whether ``address`` is one of this host: the kernel would then use it as the source as well.

    A UDP socket that connects sends nothing.
    """
    sock = socket.socket(_FAMILIES[len(address)], socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        sock.connect(_place(address, 9))
        return bool(socket.inet_pton(_FAMILIES[len(address)], sock.getsockname()[0]) == address)
    except OSError:
        return False  # the host has no route to it
    finally:
        sock.close()


def _place(address: bytes, port: int) -> tuple[str, int]:
    return socket.inet_ntop(_FAMILIES[len(address)], address), port
