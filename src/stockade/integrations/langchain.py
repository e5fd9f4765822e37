"""A tool for LangChain: Python in a living sandbox, with state. ``pip install 'stockade[langchain]'``."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Literal

from pydantic import BaseModel, Field, PrivateAttr

from stockade.api.sessions.interpreter import Interpreter
from stockade.api.sessions.records import CellOutcome, CellResult, error_text
from stockade.core.errors import JobError
from stockade.integrations.texts import cut, cut_text

try:
    from langchain_core.tools import ArgsSchema, BaseTool
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}; install it with: pip install 'stockade[langchain]'", name=error.name
    ) from error

_GONE = "The interpreter is a fresh one: variables of earlier calls are gone, files are kept."
_LATE = "stockade: the time was over. Do less at a time; variables are kept."
_DIED = (
    "stockade: the interpreter is gone: {}. Variables are gone, files are kept. If a limit ended it, do less at a time."
)


class RunPython(BaseModel):
    """The arguments of the tool."""

    code: str = Field(description="Python code. The value of its last expression is part of the answer.")


class StockadePythonTool(BaseTool):
    """Runs Python code in one interpreter of a living sandbox, which keeps its variables from call to call.

    ``sandbox`` is a ``stockade.Sandbox``, or another object with its methods; whoever made it closes it. ``timeout`` is
    in seconds for each call, by default what the policy allows. The answer's artifact is the ``CellResult``, which has
    the pictures. The guest chooses most of both.
    """

    name: str = "run_python"
    description: str = (
        "Run Python code in a sandbox, and return what it prints and the value of its last expression. "
        "Variables, imports and files are kept from call to call."
    )
    args_schema: ArgsSchema | None = RunPython
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    sandbox: Any = Field(exclude=True, repr=False)
    timeout: float | None = Field(default=None, gt=0)
    _interpreter: Interpreter | None = PrivateAttr(default=None)
    _turn: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def _run(self, code: str) -> tuple[str, CellResult | None]:
        """Run a cell; return the text for the model, and the result."""
        with self._turn:
            news = ""
            if self._interpreter is not None and not self._interpreter.alive:
                self._interpreter, news = None, _GONE
            if self._interpreter is None:
                self._interpreter = self.sandbox.interpreter("python")
                weakref.finalize(self, self._interpreter.close).atexit = False
            try:
                found = self._interpreter.run(code, timeout=self.timeout)
            except JobError as error:  # code that cannot be a cell
                return f"stockade: {error}", None
        return "\n".join(filter(None, (news, _text(found)))), found


def _text(cell: CellResult) -> str:
    """Return what a model has to read of a cell."""
    pictures = sum("image/png" in each.data for each in (*cell.displays, *([] if cell.value is None else [cell.value])))
    parts = (
        _stream(cell.stdout, cell.omitted.get("stdout", 0)),
        _stream(cell.stderr, cell.omitted.get("stderr", 0)),
        cut_text(cell.value_repr or ""),
        f"[{pictures} pictures]" if pictures else "",
        cut_text(error_text(cell.error)).rstrip(),
        _LATE if cell.outcome is CellOutcome.TIMED_OUT and not cell.ended else "",
        _DIED.format(cell.ended) if cell.ended else "",
    )
    return "\n".join(filter(None, parts)) or "(no output)"


def _stream(text: str, omitted: int) -> str:
    data = text.encode("utf-8", "replace")
    return cut(data, omitted, len(data)).rstrip("\n")
