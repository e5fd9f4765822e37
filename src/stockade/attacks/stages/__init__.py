"""All stages, by the names that headers use."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

from stockade.attacks.stages import files, internet, memory, processes, services, shared
from stockade.attacks.world import World

STAGES: dict[str, Callable[[World], Iterator[None]]] = {
    "canary": files.canary,
    "readonly": files.readonly,
    "setuid": files.setuid,
    "shared": files.shared,
    "project": files.project(access="read"),
    "project_overlay": files.project(access="overlay"),
    "project_write": files.project(access="write", hidden=["nothing"], protected=[".git/hooks"]),
    "project_private": files.project_private,
    "leak": files.leak,
    "handle": files.handle,
    "device": files.device,
    "device_node": files.device_node,
    "device_times": files.device_times,
    "private_file": files.private_file,
    "tcp": services.listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
    "tcp6": services.listener(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
    "udp": services.listener(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
    "unix": services.listener(socket.AF_UNIX, socket.SOCK_STREAM, lambda world: str(world.folder / "s")),
    "unix_shown": services.shown(socket.SOCK_STREAM),
    "unix_written": services.shown(socket.SOCK_STREAM, writable=True),
    "datagrams_shown": services.shown(socket.SOCK_DGRAM),
    "abstract": services.listener(socket.AF_UNIX, socket.SOCK_STREAM, lambda world: "\0" + world.marker),
    "vsock": services.vsock,
    "interface": services.interface,
    "usersock": services.usersock,
    "victim": processes.victim,
    "warden": processes.warden,
    "neighbour": processes.neighbour,
    "predecessor": processes.predecessor,
    "reader": processes.reader,
    "real_time_for_all": processes.real_time_for_all,
    "host_name": processes.host_name,
    "no_walls": processes.no_walls,
    "caller_secret": processes.caller_secret,
    "caller_proxy": processes.caller_proxy,
    "key": shared.key,
    "segment": shared.segment,
    "queue": shared.queue,
    "terminal": shared.terminal,
    "shared_file": shared.shared_file,
    "huge_pages": memory.huge_pages,
    "internet": internet.internet,
    "secret": internet.secret,
}
