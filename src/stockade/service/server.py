"""The server: a folder with the database, the address, the worker, and the HTTP API over them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import ipaddress
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from stockade.core.errors import JobError, SetupError
from stockade.service import app
from stockade.service.database import FILE, Database
from stockade.service.gate import Protocol
from stockade.service.keys import Keys
from stockade.service.requests import RunRequest, policy_of
from stockade.service.settings import Settings
from stockade.service.state import State
from stockade.service.workers import Supervisor

FIRST_KEY = "first"
_LOCK = "lock"
_LOCK_SECONDS = 15.0
"""How long to wait for the worker of a server that was killed."""
_MOST_CONNECTIONS = 512
_EXPIRE_SECONDS, _FORGET_SECONDS = 5.0, 60.0
_GRACE_SECONDS = 5


def serve(settings: Settings, host: str, port: int, show: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM, and return the signal's number. ``show`` gets the lines for the operator.

    Raises ``PolicyError`` for a policy above the ceiling, ``JobError`` for a folder or an address that cannot be used,
    and ``BackendUnavailable`` or ``SetupError`` if no sandbox works here.
    """
    os.umask(0o077)
    policy_of(RunRequest(source=""), settings)
    family, address = _resolved(host, port)
    with _locked(prepared(settings.data)) as lock, contextlib.closing(Database(settings.data)) as database:
        if not Keys(database).list() and not ipaddress.ip_address(address[0]).is_loopback:
            raise JobError(
                f"--host {host}: others can reach this address, and there is no key yet; "
                f"'stockade keys add NAME --data {settings.data}' makes one"
            )
        with _listening(family, address) as listener:
            return asyncio.run(_Server(settings, database, listener).serve(lock, show))


class _Server(uvicorn.Server):
    def __init__(self, settings: Settings, database: Database, listener: socket.socket) -> None:
        self._state = State(settings, database)
        self._listener = listener
        self._signal = 0
        logging.getLogger("uvicorn").setLevel(logging.ERROR)  # a warning for each invalid request helps nobody
        super().__init__(
            uvicorn.Config(
                app.make(self._state), http=Protocol, ws="none", lifespan="off", loop="asyncio", log_config=None,
                access_log=False, limit_concurrency=_MOST_CONNECTIONS, timeout_graceful_shutdown=_GRACE_SECONDS,
                server_header=False, proxy_headers=False,
            )
        )  # fmt: skip

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to ``serve``."""
        yield

    async def serve(self, lock: int, show: Callable[[str], None]) -> int:  # type: ignore[override]
        """Serve until a signal, and return its number."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._leave, number)
        supervisor = Supervisor(self._state, lock)
        keeping = asyncio.create_task(self._tidy())
        try:
            await supervisor.start()
            if not self._state.stopping:
                if not self._state.keys.list():
                    key = self._state.keys.add(FIRST_KEY, operator=True)
                    show(f"key: {key} (an operator's; it is shown only now)")
                show(f"listening: {_url(self._listener)}")
                await super().serve([self._listener])
        finally:
            keeping.cancel()
            await supervisor.stop()
        return self._signal

    def _leave(self, number: int) -> None:
        self._signal = self._signal or number
        self.should_exit = True
        self._state.stop()

    async def _tidy(self) -> None:
        forgotten = 0.0
        while True:
            try:
                for run in await self._state.call(self._state.queue.expire):
                    self._state.ended(run)
                if time.monotonic() - forgotten > _FORGET_SECONDS:
                    await self._state.call(self._state.queue.forget)
                    forgotten = time.monotonic()
            except Exception:
                logging.getLogger("stockade").exception("old runs could not be put away; it is tried again")
            await asyncio.sleep(_EXPIRE_SECONDS)


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
