"""The answers of the tools: typed data, the same as text for a model, and pictures. The guest chooses most of it."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable

from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent
from pydantic import BaseModel, Field

from stockade.api.sessions.records import CellResult, Display, error_text
from stockade.core.text import whole_end
from stockade.integrations.texts import cut, cut_text
from stockade.policy.guarantees import Guarantee
from stockade.runs.result import Outcome, Result

MOST_PICTURES = 8
_MOST_PICTURE = 4 << 20
_STARTS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_MOST_DISPLAYS = 20
_DISPLAY = 4_000
PICTURES = ("image/png", "image/jpeg")


class RunAnswer(BaseModel):
    """The end of some code, and what it wrote."""

    outcome: str = Field(description="completed, failed, timed_out, limit_exceeded, crashed, died or interrupted")
    limit: str | None = Field(None, description="The limit that ended it")
    exit_code: int | None = Field(None, description="The exit status of a command")
    stdout: str = ""
    stderr: str = ""
    value: str | None = Field(None, description="The repr of the last expression of Python code")
    error: str | None = Field(None, description="The traceback, or why the code did not run")
    displays: list[str] = Field(default_factory=list, description="What the code displayed, as text")
    pictures: int = Field(0, description="Pictures in this answer, in the order in which the code made them")
    advice: str = Field("", description="What to do next; empty if nothing is wrong")
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


class FileAnswer(BaseModel):
    """A part of a file."""

    path: str
    size: int = Field(description="Bytes of the whole file")
    offset: int
    content: str = Field(description="Text, or base64 if the bytes are not UTF-8; empty for a picture")
    encoding: str = Field(description="utf-8, base64, or picture")
    remaining: int = Field(description="Bytes behind this part: read on at offset + the size of the part")


class FileEntry(BaseModel):
    """An entry of a folder."""

    name: str
    kind: str = Field(description="file, directory, link or other")
    size: int


class FolderAnswer(BaseModel):
    """The entries of a folder."""

    path: str
    entries: list[FileEntry]


class HeldGuarantee(BaseModel):
    """The mechanism that holds a guarantee here."""

    limit: str = Field(description="What the policy sets; empty if there is nothing to set")
    strength: str = Field(
        description="kernel: holds unless the kernel is broken; supervisor: watched and ended; absent"
    )
    mechanism: str
    note: str


class PlanAnswer(BaseModel):
    """The guarantees of a place."""

    backend: str
    isolation: str
    keeps_state: bool = Field(description="Whether files and variables last from call to call")
    network: str
    workspace: str
    longest_call_seconds: float
    guarantees: dict[str, HeldGuarantee]


def of_cell(cell: CellResult) -> tuple[RunAnswer, list[ContentBlock]]:
    """Return the answer for a cell of an interpreter, and its pictures."""
    shown = (*cell.displays, *([] if cell.value is None else [cell.value]))
    found = list(_pictures(shown))
    error = error_text(cell.error) or None
    if cell.ended:
        error = "\n".join(filter(None, (error, f"the interpreter is gone: {cell.ended}")))
    stdout, stderr = cell.stdout.encode(), cell.stderr.encode()
    answer = RunAnswer(
        outcome=cell.outcome.value,
        stdout=cut(stdout, cell.omitted.get("stdout", 0), len(stdout)),
        stderr=cut(stderr, cell.omitted.get("stderr", 0), len(stderr)),
        value=None if cell.value_repr is None else cut_text(cell.value_repr),
        error=None if error is None else cut_text(error),
        displays=[cut_text(text, _DISPLAY) for text in _texts(cell.displays)][:_MOST_DISPLAYS],
        pictures=len(found[:MOST_PICTURES]),
        wall_seconds=round(cell.usage.wall_seconds, 3),
        cpu_seconds=round(cell.usage.cpu_seconds, 3),
    )
    return answer, [*found[:MOST_PICTURES]]


def of_result(result: Result) -> RunAnswer:
    """Return the answer for a command, or for a run of its own."""
    error = None if result.error is None else result.error.traceback or result.error.message
    if result.outcome not in (Outcome.COMPLETED, Outcome.FAILED):
        error = "\n".join(filter(None, (error, result.summary())))
    return RunAnswer(
        outcome="timed_out" if result.limit is Guarantee.WALL_TIME else result.outcome.value,
        limit=None if result.limit is None else result.limit.value,
        exit_code=result.exit_code,
        stdout=cut(result.stdout_bytes, result.stdout_omitted, result.stdout_head),
        stderr=cut(result.stderr_bytes, result.stderr_omitted, result.stderr_head),
        value=None if result.value_repr is None else cut_text(result.value_repr),
        error=None if error is None else cut_text(error),
        wall_seconds=round(result.usage.wall_seconds, 3),
        cpu_seconds=round(result.usage.cpu_seconds, 3),
    )


def tool_result(answer: BaseModel, text: str, *more: ContentBlock, is_error: bool = False) -> CallToolResult:
    """Return ``answer`` as data and as text, with further content behind it."""
    content: list[ContentBlock] = [TextContent(type="text", text=text), *more]
    return CallToolResult(content=content, structured_content=answer.model_dump(mode="json"), is_error=is_error)


def as_text(answer: RunAnswer) -> str:
    """Return what a model has to read of an answer."""
    plain = answer.outcome == "completed"
    status = "" if answer.exit_code in (0, None) else f", exit status {answer.exit_code}"
    parts = [
        "" if plain else f"{answer.outcome}{status}",
        answer.stdout.rstrip("\n"),
        f"stderr:\n{answer.stderr.rstrip()}" if answer.stderr.strip() else "",
        *answer.displays,
        answer.value or "",
        (answer.error or "").rstrip(),
        f"stockade: {answer.advice}" if answer.advice else "",
    ]
    return "\n".join(filter(None, parts)) or "(no output)"


def of_file(path: str, data: bytes, offset: int, most: int, news: str) -> CallToolResult:
    """Return the answer for a part of a file. A whole picture is shown as one."""
    part = data[offset : offset + most]
    left = len(data) - offset - len(part)
    kind = next((kind for start, kind in _STARTS.items() if data.startswith(start)), None)
    if kind is not None and offset == 0 and len(data) <= _MOST_PICTURE:
        answer = FileAnswer(path=path, size=len(data), offset=0, content="", encoding="picture", remaining=0)
        return tool_result(answer, _joined(f"{path}: {kind}, {len(data)} bytes", news), picture(data, kind))
    try:
        content, encoding = _whole(part, at_end=left <= 0), "utf-8"
        part = content.encode()
    except UnicodeDecodeError:
        content, encoding = base64.b64encode(part).decode(), "base64"
    left = max(0, len(data) - offset - len(part))
    answer = FileAnswer(path=path, size=len(data), offset=offset, content=content, encoding=encoding, remaining=left)
    more = f"[{left} of {len(data)} bytes follow: read on with offset={offset + len(part)}]" if left else ""
    return tool_result(answer, _joined(content or "(empty)", more, news))


def _whole(part: bytes, *, at_end: bool) -> str:
    """Return text without a character that the end of the part has cut. Raises ``UnicodeDecodeError``."""
    end = len(part) if at_end else whole_end(part)
    return part[:end].decode()


def plain(name: str) -> str:
    """Return the name of a file as JSON can hold it: bytes that are not UTF-8 are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def picture(data: bytes, kind: str) -> ImageContent:
    """Return a picture as content."""
    return ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type=kind)


def _joined(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def _pictures(shown: Iterable[Display]) -> Iterable[ImageContent]:
    for each in shown:
        kind = next((kind for kind in PICTURES if isinstance(each.data.get(kind), bytes)), None)
        if kind is not None:
            yield picture(each.data[kind], kind)


def _texts(shown: Iterable[Display]) -> Iterable[str]:
    """Yield what displays without a picture show."""
    for each in shown:
        if not any(kind in each.data for kind in PICTURES):
            yield str(each.data.get("text/plain") or f"[{', '.join(each.data)}]")
