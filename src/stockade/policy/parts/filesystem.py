"""The paths of a policy: the host's files that are shown, and the folder where the guest works."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from stockade.policy.parts.base import Part
from stockade.policy.profiles import DEFAULT_HIDDEN

# Folders that a sandbox creates for itself; a folder of the host cannot appear there.
_RESERVED = ("/proc", "/dev", "/sys", "/job")


def host_path(value: str) -> str:
    """Return a path of the host as an absolute path. Raise ``ValueError`` if a sandbox cannot show it."""
    text = os.fspath(value)
    if not text or "\0" in text:
        raise ValueError("a path must not be empty or hold a NUL byte")
    parts = text.split("/")
    if text.startswith("/") and ".." in parts:
        raise ValueError("an absolute path must be written without '..'")
    if os.path.normpath(text).startswith(".."):
        raise ValueError("leads out of the current folder by '..'; write the absolute path if you mean it")
    path = absolute(text)
    if path == "/":
        raise ValueError("the whole root is too broad; name the folders that are needed")
    for place in _RESERVED:
        if path == place or path.startswith(place + "/"):
            raise ValueError(f"every sandbox creates its own {place}")
    return path


def absolute(text: str) -> str:
    """Return an absolute path with a single spelling. POSIX would keep two leading slashes."""
    path = os.path.normpath(Path.cwd() / text)
    return path[1:] if path.startswith("//") else path


def _text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, Path) else value


def _paths(value: Any) -> Any:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ValueError("expected a list of paths")
    return tuple(map(_text, value))


_PathText = Annotated[str, BeforeValidator(_text), AfterValidator(host_path)]
_Paths = Annotated[tuple[_PathText, ...], BeforeValidator(_paths)]


def _workspace(value: Any) -> Any:
    return value if value == "empty" else host_path(_text(value))


def _relative(value: str) -> str:
    if not value or "\0" in value or value.startswith("/") or {"", ".", ".."} & set(value.rstrip("/").split("/")):
        raise ValueError("a name in the workspace must be relative, without '.' and '..'")
    return value.rstrip("/")


_Names = Annotated[
    tuple[Annotated[str, AfterValidator(_relative)], ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]


class Filesystem(Part):
    """Files of the host that the run may see. Apart from them, only the system's own programs are visible."""

    read: _Paths = Field(default=(), description="files and folders that the guest may read, at their own paths")
    write: _Paths = Field(
        default=(), description="files and folders that the guest may read and write, at their own paths"
    )
    workspace: Annotated[str, BeforeValidator(_workspace)] = Field(
        default="empty",
        description="'empty' (a new folder, removed after the run), or a folder of the host in which the guest starts: "
        "read-only unless it lies in 'write'",
    )
    access: Literal["read", "overlay", "copy", "write"] | None = Field(
        default=None,
        description="access to the workspace: 'read'; 'write': changes the folder itself; 'overlay': changes stay "
        "separate until they are committed; 'copy': changes go to a copy; unset: 'write' in an empty one, 'read' in "
        "a folder of the host; an empty one is writable unless this is 'read'",
    )
    protected: _Names = Field(
        default=(), description="paths in the workspace that stay read-only, whatever its access: '.git/hooks'"
    )
    sockets: Literal["closed", "open"] = Field(
        default="closed",
        description="Unix sockets in shown folders of the host: 'closed' refuses the guest every Unix socket "
        "except pairs while such a folder is shown; 'open' allows each one that its permissions allow",
    )
    hidden: _Names = Field(
        default=DEFAULT_HIDDEN,
        description="patterns of names that the guest never sees in a workspace of the host, at any depth, unless "
        "'read' or 'write' names the path",
    )

    @property
    def way(self) -> Literal["read", "overlay", "copy", "write"]:
        """Return the access to the workspace, with its default. An empty one is always the guest's own: it does not
        last.
        """
        if self.workspace == "empty":
            return "read" if self.access == "read" else "write"
        return self.access or ("write" if self.workspace in self.write else "read")

    @property
    def writable(self) -> tuple[str, ...]:
        """Return the host paths that the guest changes directly."""
        bound = self.way == "write" and self.workspace not in ("empty", *self.write)
        return (*self.write, self.workspace) if bound else self.write

    @property
    def shows_host(self) -> bool:
        """Return whether the guest sees the host's own files. An overlay or copy has no sockets of the host."""
        return bool(self.read or self.write) or (self.workspace != "empty" and self.way in ("read", "write"))

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the protected paths in a folder of the host. An empty workspace has nothing to protect."""
        return () if self.workspace == "empty" else self.protected

    @model_validator(mode="after")
    def _agrees(self) -> Filesystem:
        if self.workspace in self.write and self.access not in (None, "write"):
            raise ValueError(f"the workspace is among 'write', which contradicts access={self.access!r}")
        return self
