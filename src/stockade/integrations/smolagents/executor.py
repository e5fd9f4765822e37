"""``StockadeExecutor``: runs the code of a smolagents ``CodeAgent`` in the Python interpreter of a living sandbox."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from smolagents.local_python_executor import CodeOutput, InterpreterError, PythonExecutor

import stockade.embedded.worker.codec
from stockade.api.exec_limits import checked_seconds
from stockade.api.sandbox import Sandbox
from stockade.api.sessions.link import SessionEnded
from stockade.api.sessions.records import CellLimits, CellOutcome, CellResult, Display, error_text
from stockade.core.errors import JobError
from stockade.embedded.errors import HostError
from stockade.embedded.worker.codec import CodecError, decode, encode
from stockade.integrations.living import DEFAULT_POLICY
from stockade.integrations.smolagents.values import MOST_BYTES, packed, unpacked
from stockade.integrations.texts import cut_text
from stockade.policy.guarantees import Guarantee

__all__ = ["DEFAULT_POLICY", "StockadeExecutor"]
_HOST = "_stockade_host"
_DAY = 24 * 3600.0
_MOST_MESSAGE = 2 * MOST_BYTES
"""Bytes of a message as a text, in base64."""
_LONGEST_ERROR = 10_000


class StockadeExecutor(PythonExecutor):
    """Runs each step of an agent in one interpreter of one sandbox: ``CodeAgent(..., executor=StockadeExecutor())``.

    ``additional_authorized_imports`` are checked at the start: the sandbox must have these modules. ``timeout`` is the
    most seconds that a step may take, its tools included. ``max_print_outputs_length`` is the most bytes of output that
    the agent sees of a step. ``sandbox`` is one of yours, which stays open; without it, the executor makes one
    from ``policy`` and the other arguments of ``Sandbox.create``, such as ``packages=`` or ``memory=``.

    Tools run outside of the sandbox, in the thread of the agent. ``cleanup`` or the end of the context ends the rest.
    """

    def __init__(
        self,
        additional_authorized_imports: Iterable[str] = (),
        *,
        policy: Any = None,
        timeout: float = 60.0,
        max_print_outputs_length: int = 50_000,
        sandbox: Sandbox | None = None,
        **options: Any,
    ) -> None:
        if sandbox is not None and (policy is not None or options):
            raise TypeError("sandbox= is one that you have made: pass its policy and options to Sandbox.create")
        if max_print_outputs_length < 1:
            raise ValueError(f"max_print_outputs_length = {max_print_outputs_length}: at least 1")
        timeout = checked_seconds("timeout", timeout)
        self._owns = sandbox is None
        how = {"idle_timeout": None, "max_lifetime": _DAY} | options
        self.sandbox = sandbox or Sandbox.create(DEFAULT_POLICY if policy is None else policy, **how)
        self._seconds = min(timeout, self.sandbox.policy.limits.figure(Guarantee.WALL_TIME) or math.inf)
        self._most_output = max_print_outputs_length
        self._tools: dict[str, Callable[..., Any]] = {}
        self._variables: dict[str, Any] = {}
        self._final: tuple[Any] | None = None
        self._reported: tuple[Any] | None = None
        self.state: dict[str, Any] = {"_print_outputs": ""}  # a CodeAgent looks here for the output of a failed step
        self.displays: tuple[Display, ...] = ()
        """What the last step displayed, and the figures that it left open."""
        try:
            limits = CellLimits(output=4 * max_print_outputs_length, display_bytes=_MOST_MESSAGE)
            self._interpreter = self.sandbox.interpreter(limits=limits, functions={_HOST: self._answer})
            self._prepare()
            self._check_imports(additional_authorized_imports)
        except BaseException:
            self.cleanup()
            raise

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the interpreter, and the sandbox unless it is yours."""
        self.cleanup()

    def cleanup(self) -> None:
        """End the interpreter, and the sandbox unless it is yours. A ``CodeAgent`` calls it at its own end."""
        if self._owns:
            self.sandbox.close()
        elif hasattr(self, "_interpreter"):
            self._interpreter.close()

    def send_tools(self, tools: Mapping[str, Callable[..., Any]]) -> None:
        """Let the agent's code call ``tools`` by name. They run outside of the sandbox."""
        self._tools.update(tools)
        self._run(f"_stockade.take_tools({sorted(tools)!r})")

    def send_variables(self, variables: Mapping[str, Any]) -> None:
        """Set variables of the agent's code. Raises ``TypeError`` for one that is not data."""
        for name, value in variables.items():
            if not name.isidentifier():
                raise TypeError(f"variable {name!r:.80}: its name is not one of Python")
            _encoded(value, f"variable {name!r}")
        together = self._variables | dict(variables)
        _encoded(together, "all variables together")
        self._variables = together
        if variables:
            self._run("_stockade.take_variables()")

    def __call__(self, code_action: str) -> CodeOutput:
        """Run one step. Raises ``InterpreterError`` with what the agent can do about it."""
        self.state["_print_outputs"], self.displays, self._final = "", (), None
        try:
            cell = self._interpreter.run(code_action, timeout=self._seconds)
        except SessionEnded as error:
            raise InterpreterError(self._afresh(f"The interpreter had ended since the last step: {error}")) from None
        except JobError as error:
            raise InterpreterError(str(error)) from None
        self.displays = cell.displays
        self.state["_print_outputs"] = logs = self._logs(cell)
        if self._final is not None:
            final, self._final = self._final[0], None
            if cell.ended:
                self._afresh("")
            return CodeOutput(output=final, logs=logs, is_final_answer=True)
        if not cell.ok:
            raise InterpreterError(self._error_text(cell))
        return CodeOutput(output=self._value(cell), logs=logs, is_final_answer=False)

    def _error_text(self, cell: CellResult) -> str:
        """Return the error of a step in words for the agent."""
        if cell.outcome is CellOutcome.TIMED_OUT:
            text = f"The code took longer than {self._seconds:g} s and was interrupted."
            if not cell.ended:
                return f"{text} Variables keep their values. Find the slow part or the endless loop; do less in a step."
            return self._afresh(text)
        if cell.ended:
            return self._afresh(f"The code ended its interpreter: {cell.ended}.")
        return f"Code execution failed:\n{cut_text(error_text(cell.error), _LONGEST_ERROR)}"

    def _afresh(self, why: str) -> str:
        """Start another interpreter, and return what the agent has to know of it."""
        self._interpreter.restart()
        self._prepare()
        return (
            f"{why} A fresh interpreter has started: variables, functions and imports of earlier steps are gone, and "
            f"files are still there. Define again what you need, and use less memory, time or processes."
        )

    def _prepare(self) -> None:
        self._run(_source())
        if self._tools:
            self._run(f"_stockade.take_tools({sorted(self._tools)!r})")
        if self._variables:
            self._run("_stockade.take_variables()")

    def _run(self, source: str) -> None:
        """Run code of our own in the interpreter."""
        cell = self._interpreter.run(source)
        if not cell.ok:
            cause = cell.ended or (cell.error and cell.error.message) or cell.outcome
            raise InterpreterError(f"the interpreter of the sandbox does not take tools or variables: {cause:.500}")

    def _check_imports(self, names: Iterable[str]) -> None:
        wanted = sorted({name.split(".")[0] for name in names if name != "*"})
        if not wanted:
            return
        found = self._interpreter.run(
            f"[n for n in {wanted!r} if __import__('importlib.util').util.find_spec(n) is None]"
        )
        if found.value_repr != "[]":
            raise InterpreterError(
                f"the sandbox lacks modules of additional_authorized_imports: {str(found.value_repr)[:500]}; name a "
                f"virtual environment that has them by packages=, or packages by requirements="
            )

    def _logs(self, cell: CellResult) -> str:
        """Return what a step wrote, cut in the middle."""
        text = cell.stdout + (f"\n{cell.stderr}" if cell.stdout and cell.stderr else cell.stderr)
        omitted = sum(cell.omitted.get(name, 0) for name in ("stdout", "stderr"))
        text = cut_text(text, self._most_output)
        return text + (f"\n({omitted} more bytes of output are left out)" if omitted else "")

    def _value(self, cell: CellResult) -> Any:
        """Return the value of a step's last expression: as data if it is some, and else its ``repr``."""
        if cell.value_repr is None:
            return None
        self._reported = None
        self._interpreter.run("_stockade.ask('value', _); None", timeout=self._seconds)
        return cell.value_repr if self._reported is None else self._reported[0]

    def _answer(self, text: str) -> str:
        """Answer the guest, which can ask anything at any time."""
        try:
            what, *values = unpacked(decode(base64.b64decode(text, validate=True)))
            return self._asked(what, *values)
        except (ValueError, TypeError, ImportError) as error:  # an import: of numpy, which this side may lack
            raise HostError(str(error)) from None

    def _asked(self, what: Any, *values: Any) -> str:
        if what == "variables" and not values:
            return _encoded(self._variables, "the variables")
        if what == "value" and len(values) == 1:
            self._reported = (values[0],)
            return _encoded(None, "an answer")
        if what == "call" and tuple(map(type, values)) == (str, tuple, dict):
            return self._called(*values)
        raise ValueError("a request that does not exist")

    def _called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        tool = self._tools.get(name)
        if tool is None:
            raise HostError(f"there is no tool {name!r:.80}; there are {', '.join(sorted(self._tools))}")
        try:
            value = tool(*args, **kwargs)
        except Exception as error:  # its text is for the agent, with every executor
            raise HostError(f"{name}(): {type(error).__name__}: {error}") from error
        if name == "final_answer":
            self._final = (value,)
            value = None
        return _encoded(value, f"the value of {name}()")


def _encoded(value: Any, what: str) -> str:
    try:
        return base64.b64encode(encode(packed(value), MOST_BYTES)).decode()
    except (CodecError, RecursionError) as error:
        raise TypeError(
            f"{what} cannot cross the wall of the sandbox: {error}; pass None, bools, numbers, texts, bytes, dates, "
            f"lists, tuples, sets, dictionaries, numpy arrays of numbers or PIL images, or files by sandbox.files"
        ) from None


@cache
def _source() -> str:
    """Return the cell that defines the inner half."""
    here = Path(__file__).parent
    files = [Path(stockade.embedded.worker.codec.__file__), here / "values.py", here / "guest.py"]
    texts = [file.read_text() for file in files]
    return (
        "space = {'__name__': 'stockade_inside'}\n"
        f"for text in {texts!r}: exec(compile(text, '<stockade>', 'exec', dont_inherit=True), space)\n"
        f"_stockade = space['Host']({_HOST}, globals())\n"
        "del space, text\n"
    )
