"""The server: a folder with the database, the address, and the processes over them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import ipaddress
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stockade.core.errors import JobError, SetupError
from stockade.service.database import FILE, Database
from stockade.service.keys import Keys
from stockade.service.parent import Parent
from stockade.service.requests import Policies
from stockade.service.settings import Settings

FIRST_KEY = "first"
_LOCK = "lock"
_LOCK_SECONDS = 15.0
"""How long to wait for the worker of a server that was killed."""
_Show = Callable[[str], None]


def serve(settings: Settings, host: str, port: int, show: _Show) -> int:
    """Serve until SIGINT or SIGTERM, and return the signal's number. ``show`` gets the lines for the operator.

    Raises ``PolicyError`` for a policy above the ceiling, ``JobError`` for a folder or an address that cannot be used,
    and ``BackendUnavailable`` or ``SetupError`` if no sandbox works here.
    """
    os.umask(0o077)
    Policies(settings)
    family, address = _resolved(host, port)
    with _locked(prepared(settings.data)) as lock, contextlib.closing(Database(settings.data)) as database:
        if not Keys(database).list() and not ipaddress.ip_address(address[0]).is_loopback:
            raise JobError(
                f"--host {host}: others can reach this address, and there is no key yet; "
                f"'stockade keys add NAME --data {settings.data}' makes one"
            )
        with _listening(family, address) as listener:
            return asyncio.run(_keep(settings, database, lock, listener, show))


async def _keep(settings: Settings, database: Database, lock: int, listener: socket.socket, show: _Show) -> int:
    """Serve until a signal, and return its number."""
    loop, over, received = asyncio.get_running_loop(), asyncio.Event(), 0

    def leave(number: int) -> None:
        nonlocal received
        received = received or number
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leave, number)
    parent = Parent(settings, database, lock, listener)
    waiting = asyncio.create_task(over.wait())
    starting = asyncio.create_task(parent.start())
    try:
        await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        if not over.is_set():
            keys = Keys(database)
            if not keys.list():
                key = keys.add(FIRST_KEY, operator=True)
                show(f"key: {key} (an operator's; it is shown only now)")
            show(f"listening: {_url(listener)}")
            await waiting
    finally:
        await parent.stop()
        await asyncio.gather(starting, return_exceptions=True)
        waiting.cancel()
    return received


def prepared(folder: Path) -> Path:
    """Return the data folder, made if it is missing, which only its owner may enter. Raises ``JobError``."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.geteuid():
            raise JobError(f"--data {folder}: belongs to another account; name a folder of your own")
        others = {each.name for each in folder.iterdir()} - {_LOCK}
        if others and FILE not in others:
            raise JobError(f"--data {folder}: has other files in it; name a new or an empty folder")
        folder.chmod(0o700)
    except OSError as error:
        raise JobError(f"--data {folder}: {error.strerror}") from None
    return folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold the folder's lock. A worker inherits it, so it is free when both are gone."""
    fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise JobError(f"--data {folder}: another server uses it; stop that one first") from None
                time.sleep(0.2)
        yield fd
    finally:
        os.close(fd)


def _resolved(host: str, port: int) -> tuple[int, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise JobError(f"--host {host}: {error}") from None
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


@contextlib.contextmanager
def _listening(family: int, address: tuple[str, int]) -> Iterator[socket.socket]:
    # The protocol by name: asyncio sets TCP_NODELAY only where it sees it, and without it answers wait for 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(1024)
        except OSError as error:
            raise SetupError(f"--port {address[1]}: {error.strerror}; choose another, or 0 for any free one") from None
        yield listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
