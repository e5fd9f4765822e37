"""Turn a fresh child of the warden into a proxy, with no right that the proxy does not need."""

from __future__ import annotations

import _socket as socket
import _thread
import gc
import os
import resource

from stockade.core import targets
from stockade.linux import landlock, processes
from stockade.linux.seccomp import install as seccomp
from stockade.warden.proxy import dial
from stockade.warden.proxy.broker import Broker
from stockade.warden.proxy.server import Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn

    from stockade.core.launch import ProxyOrder
    from stockade.warden.proxy.vault import Vault
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_READABLE = (
    "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/ld.so.cache",
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/dev/null",
)  # fmt: skip
"""The resolver's settings, and the libraries that it loads."""
_DNS = 53
_STACK = 1 << 19
_OWN_MEMORY, _MEMORY_EACH = 1 << 28, 1 << 22
_OWN_SECONDS, _SECONDS_EACH, _BYTES_PER_SECOND = 30, 0.02, 10 << 20


def become_proxy(
    order: ProxyOrder, listener: int, control: int, *, warden: int, uid: int | None, broker: int
) -> NoReturn:
    """Serve the connections that arrive at ``listener`` until the warden shuts down ``control``. Never return.

    ``broker`` is a socket to the run's caller, or -1.
    """
    try:
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for number in range(3):
            os.dup2(null, number)
        processes.close_all_but((0, 1, 2, listener, control, warden, *((broker,) if broker >= 0 else ())))
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        asking, vault = _caller(order, broker)  # this may read certificates that the proxy's user cannot
        _bound(order)
        dial.prepare_resolver()
        if os.geteuid() == 0:
            processes.empty_bounding_set()
        processes.give_up_rights(uid, warden)
        os.close(warden)
        _thread.stack_size(_STACK)
        gc.enable()  # the warden collects by itself
        accepting = socket.socket(fileno=listener)
        accepting.setblocking(False)
        proxy = Proxy(order, accepting, socket.socket(fileno=control), asking, vault)
        _confine(order, vault)
        proxy.run()
    except BaseException:  # the warden notices that the account has no end
        os._exit(1)
    os._exit(0)


def _caller(order: ProxyOrder, broker: int) -> tuple[Broker | None, Vault | None]:
    """Return what the run's caller answers, and its secrets, if it has any."""
    if broker < 0:
        return None, None
    asking = Broker(socket.socket(fileno=broker), order.ask_seconds)
    entries = asking.secrets()
    if not entries:
        return asking, None
    from stockade.warden.proxy.vault import Vault  # it imports ssl, which few runs need

    return asking, Vault(entries)


def _confine(order: ProxyOrder, vault: Vault | None) -> None:
    """Leave only the resolver's files, TCP connections to ports of the list, and the calls that the proxy makes."""
    if landlock.abi():
        ports = {targets.parse_pattern(text).port for text in order.allow}
        readable = [path for path in (*_READABLE, *(vault.readable if vault else ())) if os.path.exists(path)]
        landlock.restrict(landlock.Ruleset(read=readable, tcp_connect="all" if order.asks else sorted(ports | {_DNS})))
    if order.filter:
        seccomp.install(order.filter)


def _bound(order: ProxyOrder) -> None:
    memory = _OWN_MEMORY + order.connections * _MEMORY_EACH
    limits = [
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_NOFILE, 4 * order.connections + 64),
        (resource.RLIMIT_FSIZE, 0),
    ]
    if order.requests is not None and order.sent is not None and order.received is not None:
        moved = (order.sent + order.received) / _BYTES_PER_SECOND
        limits.append((resource.RLIMIT_CPU, int(_OWN_SECONDS + order.requests * _SECONDS_EACH + moved)))
    for number, figure in limits:
        hard = resource.getrlimit(number)[1]
        most = figure if hard == resource.RLIM_INFINITY else min(figure, hard)
        resource.setrlimit(number, (most, most))
