"""The tools: methods whose signatures are the schemas that clients see, and whose docstrings are their descriptions."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Generic, Literal, TypeVar

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult
from pydantic import Field

from stockade.api.sessions.records import CellOutput, Display
from stockade.core.errors import StockadeError
from stockade.integrations.mcp import answers
from stockade.integrations.mcp.advice import advice, for_text
from stockade.integrations.mcp.answers import FileAnswer, FileEntry, FolderAnswer, HeldGuarantee, PlanAnswer, RunAnswer
from stockade.integrations.mcp.places import Keeping, Place, Single
from stockade.integrations.texts import cut_text
from stockade.planning.figures import asked

T = TypeVar("T")
P = TypeVar("P", bound=Place)
_REPORT_SECONDS = 1.0
_LAST_LINE = 200
_ENTRIES = 1_000

Code = Annotated[str, Field(description="Python source. The value of the last expression is part of the answer.")]
Command = Annotated[
    str | list[str], Field(description="A line for sh, or a list of a program and its arguments that no shell reads")
]
Timeout = Annotated[float, Field(gt=0, description="Seconds on the clock after which the call is ended")]
FilePath = Annotated[str, Field(description="A path in the sandbox; a relative one starts in the workspace")]


class _Tools(Generic[P]):
    """The common part of the tools of both kinds of place."""

    NAMES: tuple[str, ...] = ()

    def __init__(self, place: P) -> None:
        self.place = place

    # Not a plain function: the server would call it in a thread, and the front of a service can start none.
    async def plan(self) -> Annotated[CallToolResult, PlanAnswer]:
        """Show what is guaranteed here: every limit, what holds it and how strongly, the network and the workspace."""
        place, policy = self.place, self.place.policy
        with _reported(place):
            backend, isolation, enforcement = await place.held()
        held = {
            str(guarantee): HeldGuarantee(
                limit=asked(policy, guarantee),
                strength=str(each.strength),
                mechanism=each.mechanism,
                note=each.note,
            )
            for guarantee, each in enforcement.items()
        }
        answer = PlanAnswer(
            backend=backend,
            isolation=isolation,
            keeps_state=place.keeps_state,
            network=str(policy.network),
            workspace=f"{policy.filesystem.workspace}, {policy.filesystem.way}",
            longest_call_seconds=place.longest,
            guarantees=held,
        )
        lines = [
            f"backend {answer.backend}, isolation by {answer.isolation}; network: {answer.network}; "
            f"workspace: {answer.workspace}; a call takes {answer.longest_call_seconds:g} s at most"
        ]
        lines += [f"{name} {each.limit}: {each.strength} ({each.mechanism}) {each.note}" for name, each in held.items()]
        return answers.tool_result(answer, "\n".join(lines))

    def _seconds(self, timeout: float) -> float:
        return min(timeout, self.place.longest)

    def _answer(self, answer: RunAnswer, seconds: float, news: str = "", *more: Any) -> CallToolResult:
        answer.advice = " ".join(filter(None, (news, advice(answer, self.place, seconds))))
        return answers.tool_result(answer, answers.as_text(answer), *more, is_error=answer.outcome != "completed")


class LivingTools(_Tools[Keeping]):
    """The tools over one sandbox that lives."""

    NAMES = ("run_python", "run_command", "write_file", "read_file", "list_files", "reset", "plan")

    async def run_python(self, code: Code, ctx: Context, timeout: Timeout = 60) -> Annotated[CallToolResult, RunAnswer]:
        """Run Python code in an interpreter that keeps its variables from call to call, as a notebook does.

        Figures of matplotlib and other pictures come back as images. The code may use await at its top level.
        """
        seconds, last = self._seconds(timeout), _LastLine()
        with _reported(self.place):
            call = self.place.run_code(code, seconds, last.take)
            answer, pictures = answers.of_cell(await watched(ctx, call, seconds, last.text))
        return self._answer(answer, seconds, self.place.news(), *pictures)

    async def run_command(
        self,
        command: Command,
        ctx: Context,
        timeout: Timeout = 60,
        stdin: Annotated[str, Field(description="Text for its standard input")] = "",
        cwd: Annotated[str | None, Field(description="The folder to start in; the workspace if left out")] = None,
    ) -> Annotated[CallToolResult, RunAnswer]:
        """Run a command in the sandbox and wait for its end. What it puts into the background lives on."""
        seconds = self._seconds(timeout)
        with _reported(self.place):
            call = self.place.run_command(_argv(command), cwd=cwd, stdin=stdin or None, seconds=seconds)
            answer = answers.of_result(await watched(ctx, call, seconds))
        return self._answer(answer, seconds, self.place.news())

    async def write_file(
        self,
        path: FilePath,
        content: str,
        encoding: Annotated[Literal["utf-8", "base64"], Field(description="How content holds the bytes")] = "utf-8",
    ) -> Annotated[CallToolResult, FileAnswer]:
        """Write a whole file of the sandbox, with the folders above it."""
        with _reported(self.place):
            data = content.encode() if encoding == "utf-8" else base64.b64decode(content, validate=True)
            await self.place.write(path, data)
        answer = FileAnswer(path=path, size=len(data), offset=0, content="", encoding=encoding, remaining=0)
        return answers.tool_result(answer, _sentences(f"wrote {len(data)} bytes to {path}", self.place.news()))

    async def read_file(
        self,
        path: FilePath,
        offset: Annotated[int, Field(ge=0, description="The first byte to return")] = 0,
        max_bytes: Annotated[int, Field(gt=0, le=1_000_000, description="The most bytes to return")] = 50_000,
    ) -> Annotated[CallToolResult, FileAnswer]:
        """Read a file of the sandbox, or a part of it. A PNG or JPEG comes back as an image."""
        with _reported(self.place):
            data = await self.place.read(path)
        return answers.of_file(path, data, offset, max_bytes, self.place.news())

    async def list_files(self, path: FilePath = ".") -> Annotated[CallToolResult, FolderAnswer]:
        """List a folder of the sandbox."""
        with _reported(self.place):
            found = await self.place.list(path, _ENTRIES)
        entries = [FileEntry(name=answers.plain(each.path), kind=each.kind, size=each.size) for each in found]
        lines = [f"{each.kind:<9} {each.size:>10} {each.name}" for each in entries] or ["(empty)"]
        text = "\n".join(filter(None, (*lines, self.place.news())))
        return answers.tool_result(FolderAnswer(path=path, entries=entries), text)

    async def reset(self) -> str:
        """End the sandbox with its files, variables and processes. The next call starts a fresh one."""
        with _reported(self.place):
            await self.place.close()
        return "The sandbox has ended. The next call starts a fresh one, without files, variables and processes."


class SingleTools(_Tools[Single]):
    """The tools where each call runs in a fresh sandbox."""

    NAMES = ("run_python", "run_command", "plan")

    async def run_python(self, code: Code, ctx: Context, timeout: Timeout = 60) -> Annotated[CallToolResult, RunAnswer]:
        """Run Python code in a fresh sandbox: no variable and no file lasts longer than the call."""
        place, seconds = self.place, self._seconds(timeout)
        with _reported(self.place):
            call = place.runner(seconds).run(code, **place.options)
            answer = answers.of_result(await watched(ctx, call, seconds))
        return self._answer(answer, seconds)

    async def run_command(
        self,
        command: Command,
        ctx: Context,
        timeout: Timeout = 60,
        stdin: Annotated[str, Field(description="Text for its standard input")] = "",
    ) -> Annotated[CallToolResult, RunAnswer]:
        """Run a command in a fresh sandbox, and wait for its end."""
        place, seconds = self.place, self._seconds(timeout)
        with _reported(self.place):
            call = place.runner(seconds).run_command(_argv(command), stdin=stdin or None, **place.options)
            answer = answers.of_result(await watched(ctx, call, seconds))
        return self._answer(answer, seconds)


class _LastLine:
    """The last line that a cell wrote, for reports of its progress. The interpreter's thread calls ``take``."""

    def __init__(self) -> None:
        self._tail = ""

    def take(self, event: CellOutput | Display) -> None:
        """Take a piece of output."""
        if isinstance(event, CellOutput):
            self._tail = (self._tail + event.data.decode("utf-8", "replace"))[-_LAST_LINE:]

    def text(self) -> str:
        """Return the line."""
        return self._tail.rstrip("\n").rpartition("\n")[2]


async def watched(
    ctx: Context, call: Coroutine[Any, Any, T], seconds: float, last: Callable[[], str] = lambda: ""
) -> T:
    """Await ``call``, and report its progress each second. If the client cancels, end what runs, and wait for the end.

    The call has a task of its own: the server cancels its own tasks again and again until they end, which would keep
    the processor busy while code is being interrupted.
    """
    task = asyncio.ensure_future(call)
    begin = time.monotonic()
    try:
        while not (await asyncio.wait([task], timeout=_REPORT_SECONDS))[0]:
            passed = round(time.monotonic() - begin, 1)
            await ctx.report_progress(passed, seconds, f"running for {passed:.0f} s: {last()}".rstrip(": "))
    except BaseException:
        with anyio.CancelScope(shield=True):
            task.cancel()
            await asyncio.wait([task])
        raise
    return task.result()


@contextmanager
def _reported(place: Place) -> Iterator[None]:
    """Raise what the model can do something about as an error of the tool. Anything else is a fault of the server."""
    try:
        yield
    except (StockadeError, OSError, ValueError) as error:
        text = f"{error}".rstrip(".") + "."
        next_step = _NEXT.get(type(error).__name__) or for_text(text, place)
        raise ToolError(cut_text(_sentences(text, next_step))) from error


_NEXT = {
    "IsADirectoryError": "list_files shows what is in it.",
    "FileRefused": "run_command reads parts of long files (head, tail, sed), and lists long folders.",
    "SandboxClosed": "The next call starts a fresh sandbox.",
    "SessionEnded": "Call it again: the next call starts it afresh.",
}
"""What to do after an error, by its name."""


def _sentences(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _argv(command: str | list[str]) -> list[str]:
    return ["sh", "-c", command] if isinstance(command, str) else command
