"""Finds the engine behind a socket, asks what it can hold, and resolves images to their digests.

The podman backend uses the same code, except to ask its engine what it can hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stockade.core.dataclass import dataclass
from stockade.core.errors import JobError
from stockade.linux.engine_api import EngineError, ask

_ASK_SECONDS = 5.0
_PULL_SECONDS = 1800.0
_SCHEME = "unix://"
_LIMITS = ("MemoryLimit", "SwapLimit", "PidsLimit", "CpuCfsQuota")


@dataclass(frozen=True)
class ContainerEngine:
    """An engine, as it describes itself."""

    socket: str
    version: str = ""
    limits: Mapping[str, bool] = field(default_factory=dict)
    """Whether it can limit a resource on its host, by the engine's own names."""
    runtimes: tuple[str, ...] = ()
    security: tuple[str, ...] = ()
    """Its security options, such as ``name=seccomp,profile=default``."""
    trouble: str = ""
    """Why it cannot be used; empty if it answers."""
    remedy: str = ""
    """What a user can do about that trouble, where no backend knows better."""
    name: str = "docker"

    @property
    def has_filter(self) -> bool:
        """Whether it loads a system-call filter unless told otherwise."""
        return any(option.startswith("name=seccomp") and "unconfined" not in option for option in self.security)

    @property
    def is_rootless(self) -> bool:
        """Whether the engine runs without root's rights."""
        return "name=rootless" in self.security

    @property
    def maps_users(self) -> bool:
        """Whether a uid in a container is another uid on the host."""
        return self.is_rootless or "name=userns" in self.security

    def lacks(self, limit: str) -> str:
        """Return why the engine does not hold a limit, or an empty text."""
        if self.limits.get(limit):
            return ""
        who = "a rootless engine" if self.is_rootless else "the engine"
        return f"{who} at {self.socket} has no {limit}: it would ignore the limit"


def default_socket() -> str:
    """Return the path of the user's docker socket: of DOCKER_HOST, of a rootless engine, or of the system's."""
    return named_socket("DOCKER_HOST") or own_socket("docker.sock") or "/var/run/docker.sock"


def named_socket(variable: str) -> str:
    """Return the path of the socket that an environment variable names, or an empty text."""
    return os.environ.get(variable, "").removeprefix(_SCHEME)


def own_socket(name: str) -> str:
    """Return the path of the socket of the user's own engine, or an empty text without one."""
    own = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent", name)
    return str(own) if own.exists() else ""


def look(socket: str, described: Callable[[str], ContainerEngine] | None = None) -> ContainerEngine:
    """Return the engine behind ``socket``, as ``described`` has it describe itself, or with the reason that it cannot.

    An answer is kept for the life of this process, a failure is not.
    """
    if "://" in socket:
        return ContainerEngine(socket, trouble=f"{socket} is no Unix socket, and the engine must run on this host")
    try:
        return (described or _asked)(socket)
    except EngineError as error:
        return ContainerEngine(socket, trouble=str(error), remedy=error.remedy)


@lru_cache(maxsize=8)
def _asked(socket: str) -> ContainerEngine:
    info: Any = ask(socket, "GET", "/info", seconds=_ASK_SECONDS)
    if not isinstance(info, dict) or "ServerVersion" not in info:
        raise EngineError(f"{socket}: the program behind it is not a docker engine")
    if "BuildahVersion" in info:
        raise EngineError(
            f"{socket}: the engine behind it is podman, whose requests differ",
            remedy="use backend='podman', or name docker's own socket in DOCKER_HOST",
        )
    return ContainerEngine(
        socket,
        version=str(info["ServerVersion"]),
        limits={name: bool(info.get(name)) for name in _LIMITS},
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        security=tuple(info.get("SecurityOptions") or ()),
    )


@dataclass(frozen=True)
class LocalImage:
    """An image that the engine has."""

    digest: str
    volumes: tuple[str, ...] = ()
    """The folders of which an engine makes writable volumes on its own disk, unless told otherwise."""


def resolve(socket: str, image: str, pulling: str = "stockade images pull") -> LocalImage:
    """Return a local image. Raises ``JobError`` if the engine does not have it: nothing is pulled.

    ``pulling`` is the command by which a user can pull one.
    """
    try:
        found: Any = ask(socket, "GET", f"/images/{quote(image)}/json", seconds=_ASK_SECONDS)
    except EngineError as error:
        if error.status == 404:
            raise JobError(
                f"image {image!r} is not in the engine at {socket}, and a run never pulls one; "
                f"pull it: {pulling} {image}"
            ) from None
        raise JobError(f"image {image!r}: {error}") from None
    return LocalImage(str(found["Id"]), tuple(sorted((found.get("Config") or {}).get("Volumes") or ())))


def pull(socket: str, image: str) -> str:
    """Have the engine pull ``image``; return its digest. Raises ``JobError`` with the engine's own words."""
    name, tag = _split(image)
    target = f"/images/create?fromImage={quote(name, safe='')}&tag={quote(tag, safe='')}"
    try:
        answer = ask(socket, "POST", target, seconds=_PULL_SECONDS)
    except EngineError as error:
        raise JobError(f"pull {image!r}: {error}") from None
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
    if '"error"' in text or "'error'" in text:
        raise JobError(f"pull {image!r}: {socket}: {text.strip().splitlines()[-1][:300]}")
    return resolve(socket, image).digest


def _split(image: str) -> tuple[str, str]:
    """Return the name and the tag or digest of an image. Without one, an engine would pull every tag."""
    name, at, digest = image.partition("@")
    if at:
        return name, digest
    head, colon, tag = image.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (image, "latest")
