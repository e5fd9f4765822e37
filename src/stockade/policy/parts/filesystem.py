"""The paths of a policy: what of the host is shown, and where the guest works."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from stockade.policy.parts.base import Part
from stockade.policy.profiles import DEFAULT_HIDDEN

# Places that a sandbox makes for itself; a folder of the host cannot stand there.
_RESERVED = ("/proc", "/dev", "/sys", "/job")


def host_path(value: str) -> str:
    """Return a path of the host as an absolute one; raise ``ValueError`` if a sandbox cannot show it."""
    text = os.fspath(value)
    if not text or "\0" in text:
        raise ValueError("a path must not be empty or hold a NUL byte")
    parts = text.split("/")
    if text.startswith("/") and ".." in parts:
        raise ValueError("an absolute path must be written without '..'")
    if os.path.normpath(text).startswith(".."):
        raise ValueError("leads out of the current folder by '..'; write the absolute path if that is meant")
    path = absolute(text)
    if path == "/":
        raise ValueError("the whole root is too broad; name the folders that are needed")
    for place in _RESERVED:
        if path == place or path.startswith(place + "/"):
            raise ValueError(f"{place} is made afresh in every sandbox")
    return path


def absolute(text: str) -> str:
    """Return a path as one from the root that has a single spelling: POSIX leaves two slashes in front as they are."""
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
        raise ValueError("a name in the workspace is relative, and has no '.' or '..' in it")
    return value.rstrip("/")


_Names = Annotated[
    tuple[Annotated[str, AfterValidator(_relative)], ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]


class Filesystem(Part):
    """Files of the host that the run may see. Nothing is visible but these and the system's own programs."""

    read: _Paths = Field(default=(), description="files and folders to read, each at its own place")
    write: _Paths = Field(default=(), description="files and folders to read and write, each at its own place")
    workspace: Annotated[str, BeforeValidator(_workspace)] = Field(
        default="empty",
        description="'empty' (a fresh folder, gone after the run), or a folder of the host to start in: "
        "read-only unless it lies in 'write'",
    )
    access: Literal["read", "overlay", "copy", "write"] | None = Field(
        default=None,
        description="what the guest may do in the workspace: 'read'; 'write' for real; 'overlay': what it writes is "
        "kept apart until it is committed; 'copy': it writes to a copy; unset: 'write' in an empty one, 'read' in "
        "a folder of the host; an empty one can be written with all but 'read'",
    )
    protected: _Names = Field(
        default=(), description="paths in the workspace that stay read-only, whatever its access: '.git/hooks'"
    )
    sockets: Literal["closed", "open"] = Field(
        default="closed",
        description="Unix sockets in the host's folders that are shown: 'closed' refuses the guest every Unix socket "
        "but pairs while such a folder is shown; 'open' leaves each one in reach, as far as its permissions go",
    )
    hidden: _Names = Field(
        default=DEFAULT_HIDDEN,
        description="patterns of names that the guest never sees in a workspace of the host, at any depth, unless "
        "'read' or 'write' names the path",
    )

    @property
    def way(self) -> Literal["read", "overlay", "copy", "write"]:
        """What the guest may do in the workspace, where that is not said either. An empty one is its own in any case:
        nothing of it lasts."""
        if self.workspace == "empty":
            return "read" if self.access == "read" else "write"
        return self.access or ("write" if self.workspace in self.write else "read")

    @property
    def writable(self) -> tuple[str, ...]:
        """The paths of the host that are written for real."""
        bound = self.way == "write" and self.workspace not in ("empty", *self.write)
        return (*self.write, self.workspace) if bound else self.write

    @property
    def shows_host(self) -> bool:
        """Whether a file of the host is shown as it is: what an overlay or a copy shows has no sockets of the host."""
        return bool(self.read or self.write) or (self.workspace != "empty" and self.way in ("read", "write"))

    @property
    def kept(self) -> tuple[str, ...]:
        """What is protected in a folder of the host; in an empty workspace there is nothing to protect."""
        return () if self.workspace == "empty" else self.protected

    @model_validator(mode="after")
    def _agrees(self) -> Filesystem:
        if self.workspace in self.write and self.access not in (None, "write"):
            raise ValueError(f"the workspace is among 'write', for real, and access={self.access!r} says otherwise")
        return self
