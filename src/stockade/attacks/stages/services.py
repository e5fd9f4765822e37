"""Stages of services of the host. No message of a guest may reach them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from stockade.attacks.world import World


def listener(family: int, kind: int, address: Any) -> Callable[[World], Iterator[None]]:
    """Return the stage of a service that answers at ``address``."""

    def stage(world: World) -> Iterator[None]:
        place = address(world) if callable(address) else address
        received = threading.Event()
        with socket.socket(family, kind) as server:
            server.bind(place)
            server.settimeout(0.1)
            if kind == socket.SOCK_STREAM:
                server.listen(8)
            if isinstance(place, tuple):
                world.environment["ATTACK_PORT"] = str(server.getsockname()[1])
            else:
                world.environment["ATTACK_SOCKET"] = place.replace("\0", "@")
                if not place.startswith("\0"):
                    Path(place).chmod(0o777)
            stop = threading.Event()
            thread = threading.Thread(target=_answer, args=(server, received, stop))
            thread.start()
            world.seen["heard"] = received.is_set
            try:
                yield
            finally:
                stop.set()
                thread.join()

    return stage


def shown(kind: int, *, writable: bool = False) -> Callable[[World], Iterator[None]]:
    """Return the stage of a service with a Unix socket in a shown folder, as SSH agents and container engines have.

    The service restarts all the time, with a new socket each time.
    """

    def stage(world: World) -> Iterator[None]:
        folder = world.folder / "shown"
        folder.mkdir()
        folder.chmod(0o777)
        (world.write if writable else world.read).append(str(folder))
        path = folder / "socket"
        world.environment["ATTACK_SOCKET"] = str(path)
        received, stop = threading.Event(), threading.Event()
        world.seen["heard"] = received.is_set
        thread = threading.Thread(target=_start_again, args=(path, kind, received, stop))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    return stage


def _start_again(path: Path, kind: int, received: threading.Event, stop: threading.Event) -> None:
    while not stop.is_set():
        with socket.socket(socket.AF_UNIX, kind) as server:
            path.unlink(missing_ok=True)
            server.bind(str(path))
            path.chmod(0o666)
            server.settimeout(0.05)
            if kind != socket.SOCK_DGRAM:
                server.listen(8)
            with suppress(TimeoutError, ConnectionError):
                if kind == socket.SOCK_DGRAM:
                    messages_now = bool(server.recv(10))
                else:
                    with server.accept()[0] as connection:
                        messages_now = connection.send(b"heard") > 0
                if messages_now:
                    received.set()


def _answer(server: socket.socket, received: threading.Event, stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(TimeoutError, ConnectionError):
            if server.type == socket.SOCK_STREAM:
                connection, _ = server.accept()
                received.set()
                with connection:
                    connection.sendall(b"heard")
            else:
                _, sender = server.recvfrom(100)
                received.set()
                server.sendto(b"heard", sender)


def vsock(world: World) -> Iterator[None]:
    """Listen on a VM socket, whose family ignores network namespaces."""
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as server:
        server.bind((socket.VMADDR_CID_ANY, socket.VMADDR_PORT_ANY))
        server.listen(1)
        world.environment["ATTACK_PORT"] = str(server.getsockname()[1])
        yield


def usersock(world: World) -> Iterator[None]:
    """Listen on the netlink family for messages between user processes."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_USERSOCK) as server:
        server.bind((0, 0))
        server.setblocking(False)
        world.environment["ATTACK_PORT"] = str(server.getsockname()[0])

        def received() -> bool:
            try:
                return b"heard" in server.recv(100)
            except BlockingIOError:
                return False

        world.seen["heard"] = received
        yield


def interface(world: World) -> Iterator[None]:
    """Give the program the names of the host's network interfaces."""
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    world.environment["ATTACK_INTERFACES"] = ",".join(names)
    yield
