"""Requests about sandboxes, as clients send them, and as the front passes them on."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stockade.service.answers import Shape
from stockade.service.requests import Content

_LONGEST_SECONDS = 366 * 86_400.0


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SandboxRequest(_Strict):
    """A sandbox to start. Limits of memory, processes and disk are the sandbox's; the others are each command's."""

    limits: dict[str, Any] = Field({}, description='the limits of the policy, such as {"memory": "64MiB"}')
    policy: dict[str, Any] = Field({}, description="other fields of the policy, as in a run")
    environment: dict[str, str] = Field({}, description="variables of every command and interpreter")
    labels: dict[str, str] = Field({}, description="what you say of the sandbox")
    idle_timeout: float = Field(600.0, gt=0, le=_LONGEST_SECONDS, description="seconds without a call until its end")
    max_lifetime: float = Field(3600.0, gt=0, le=_LONGEST_SECONDS, description="seconds until its end, at most")


class CommandRequest(_Strict):
    """A command to run in a sandbox. The limits lower those of the sandbox's policy."""

    argv: list[str] = Field(description="the command and its arguments")
    cwd: str | None = Field(None, description="its folder; a relative one starts in the workspace")
    environment: dict[str, str] = Field({}, description="variables on top of the sandbox's own")
    stdin: Content | None = Field(None, description="standard input; empty without it")
    timeout: float | None = Field(None, description="seconds of wall time")
    cpu_time: float | None = Field(None, description="seconds of CPU time")
    output: int | str | None = Field(None, description='bytes of output, or a text such as "1MiB"')


class CellRequest(_Strict):
    """A piece of source for an interpreter, which keeps its state from one to the next."""

    source: str = Field(description="the source text")
    timeout: float | None = Field(None, description="seconds of wall time; at most what the policy allows")


class Size(BaseModel):
    """The size of a terminal."""

    model_config = ConfigDict(extra="forbid")

    rows: int = Field(24, ge=1, le=1000)
    columns: int = Field(80, ge=1, le=1000)


class Control(Size):
    """A wish of a client for its terminal: a new size, or instead of it a signal, or the end."""

    signal: int | None = Field(None, ge=1, le=64, description="a signal for the command's first process")
    end: Literal["hang_up", "kill"] | None = Field(None, description="kill also ends all that the command started")


class TerminalRequest(Size):
    """A command to run at a terminal."""

    argv: list[str] = Field(["sh", "-i"], min_length=1, description="the command and its arguments, one each time")
    cwd: str | None = Field(None, description="its folder; a relative one starts in the workspace")
    timeout: float | None = Field(None, description="seconds of wall time; at most the sandbox's life without it")
    cpu_time: float | None = Field(None, description="seconds of CPU time; at most what the policy allows")
    idle_timeout: float = Field(
        600.0, gt=0, le=_LONGEST_SECONDS, description="seconds without a byte in either direction until its end"
    )
    format: Shape = Field("text", description="text: streams as text; full: every field, bytes as base64")


Operation = Literal[
    "create", "fork", "close", "hold", "plan", "command", "read", "write", "list", "remove", "cell", "restart",
    "terminal", "screen", "keys", "control", "events",
]  # fmt: skip


class Call(_Strict):
    """A request of the front to the worker. Its body is a request of a client as JSON, or the bytes of a file."""

    do: Operation
    holder: str
    """The worker that it is for: a later one does not know its sandbox."""
    key: int
    key_name: str
    sandbox: str = ""
    path: str = ""
    recursive: bool = False
    language: str = ""
    terminal: str = ""
    """The front's name for a terminal."""
    shape: Shape = "text"
    run: str = ""
    after: str = ""
    """The id of the last event that the client of a live run has."""
    seconds: float = 0.0
    """How long to wait for an event."""


def packed(head: BaseModel, body: bytes) -> bytes:
    """Return a head and a body as one message."""
    return head.model_dump_json().encode() + b"\n" + body


def unpacked(message: bytes) -> tuple[bytes, bytes]:
    """Return the head and the body of a message."""
    head, _, body = message.partition(b"\n")
    return head, body


class Answer(_Strict):
    """An answer of the worker. Its body is that of the HTTP response."""

    status: int
    type: str = "application/json"
    retry: int | None = None


class Sandbox(BaseModel):
    """A sandbox that lives, or has lived."""

    id: str
    state: Literal["open", "closed", "lost"] = Field(description="lost: it ended with a process of the service")
    reason: str | None = Field(description="why it has ended")
    labels: dict[str, str]
    created_at: str = Field(description="RFC 3339, UTC")
    expires_at: str = Field(description="when its max_lifetime is over")
    ended_at: str | None
    idle_timeout: float = Field(description="seconds without a call until its end")
    max_lifetime: float = Field(description="seconds until its end, at most; the service may have lowered it")


class Sandboxes(BaseModel):
    """A page of sandboxes."""

    sandboxes: list[Sandbox]
    next: int | None = Field(description="pass it as 'before' for the next page; null on the last one")


class Usage(BaseModel):
    """The time and the memory that one cell used."""

    wall_seconds: float
    cpu_seconds: float
    memory: int | None = Field(description="resident memory of the interpreter, in bytes")


class Cell(BaseModel):
    """The result of a cell. All but ``outcome`` (unless ``failed``) and ``wall_seconds`` is the guest's own word."""

    outcome: Literal["completed", "failed", "interrupted", "timed_out", "died"]
    execution_count: int
    stdout: str
    stderr: str
    value_repr: str | None = Field(description="the last expression's value as text")
    value: dict[str, Any] | None = Field(description="the same value by MIME type; pictures and PDF as base64")
    displays: list[dict[str, Any]] = Field(description="what the cell displayed, each by MIME type")
    error: dict[str, Any] | None
    usage: Usage
    omitted: dict[str, int] = Field(description="what limits left out")
    ended: str = Field(description="why the interpreter is gone; empty if it lives")


def compact(value: Any) -> bytes:
    """Return JSON that no guest's value can break: infinities and NaN become null. Raises ``RecursionError``."""
    from stockade.core.strict_json import dumps

    try:
        return dumps(value, compact=True).encode()
    except ValueError:
        plain = json.loads(json.dumps(value), parse_constant=lambda _name: None)
        return dumps(plain, compact=True).encode()
