"""``stockade.call``: one Python function of the caller's, run in a sandbox, with plain data in and out."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import json
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Unpack

from stockade.api.options import SingleRunOptions
from stockade.api.plain import check_plain
from stockade.api.runner import run
from stockade.core.errors import JobError

if TYPE_CHECKING:
    from stockade.backends.base import Backend
    from stockade.policy.ceiling import Given
    from stockade.policy.model import PolicyLike


def call(
    function: Callable[..., Any],
    *values: Any,
    policy: PolicyLike | None = None,
    backend: str | Backend | None = None,
    image: str | None = None,
    trust: str | None = None,
    ceiling: Given | None = None,
    **options: Unpack[SingleRunOptions],
) -> Any:
    """Run ``function(*values)`` in a sandbox of its own, and return what it returns.

    The function's source text runs there, so it must be a plain function (``def``) that uses only its arguments, names
    of its own, and built-in names; it imports inside itself. Arguments and the value are plain data: ``None``, bools,
    integers, finite floats, texts, lists, and dictionaries with texts as keys. A tuple comes back as a list.
    The options are those of ``stockade.run``.

    Raises ``JobError`` before anything starts if the function or an argument is something else, and after the run
    if the value is; ``GuestFailed`` (with ``.result``) if the function raises, and as ``Result.check`` does otherwise.

        def total(rows):
            return sum(rows)

        stockade.call(total, [1, 2, 3], timeout=5)  # 6
    """
    source = _program(function, values)
    result = run(source, policy=policy, backend=backend, image=image, trust=trust, ceiling=ceiling, **options).check()
    if not isinstance(result.value, list) or len(result.value) != 1:
        shown = (result.value_repr or "[nothing]")[1:-1][:200]
        raise JobError(f"call: {_name(function)} returns {shown}, which is not plain data, or is too large to report")
    return result.value[0]


def _program(function: Callable[..., Any], values: tuple[Any, ...]) -> str:
    """Return a program whose last expression is a list with the value of the call."""
    if not isinstance(function, FunctionType) or inspect.ismethod(function):
        raise JobError(f"call: {function!r:.80} is not a function made with def; pass one that calls it")
    name = _name(function)
    try:
        text = inspect.getsource(function)
        nested = text[:1].isspace()
        text = f"if True:\n{text}" if nested else text  # without its indentation, texts inside would change
        definition: Any = ast.parse(text).body[0]
        definition = definition.body[0] if nested else definition
    except (OSError, SyntaxError, IndexError) as error:
        raise JobError(f"call: the source text of {name} cannot be read: {error}; define it in a file") from error
    if not isinstance(definition, ast.FunctionDef):
        kind = "a coroutine function" if isinstance(definition, ast.AsyncFunctionDef) else "not made with def alone"
        raise JobError(f"call: {name} is {kind}; pass a plain function")
    if definition.decorator_list:
        raise JobError(f"call: {name} has decorators, which the sandbox does not have; pass a function without them")
    outside = sorted(_outside(function, definition))
    if outside:
        raise JobError(
            f"call: {name} uses {', '.join(outside)} from outside of itself; import it inside, or pass it in"
        )
    for number, value in enumerate(values):
        check_plain(value, f"call: values[{number}]")
    words = json.dumps(list(values))
    return f"from __future__ import annotations\n{text}\n[{definition.name}(*__import__('json').loads({words!r}))]\n"


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))[:80]


def _outside(function: FunctionType, definition: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that the function takes from its module or from a function around it."""
    own = {definition.name, *dir(builtins)}
    yield from (name for name in function.__code__.co_freevars if name not in own)
    yield from (name for name in _globals(function.__code__) if name not in own)
    defaults = [*definition.args.defaults, *filter(None, definition.args.kw_defaults)]
    for default in defaults:
        names = (node.id for node in ast.walk(default) if isinstance(node, ast.Name))
        yield from (name for name in names if name not in own)


def _globals(code: CodeType) -> set[str]:
    """Return the global names that code reads, in functions inside it as well, and does not set itself."""
    read: set[str] = set()
    written: set[str] = set()
    for each in _codes(code):
        for step in dis.get_instructions(each):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                read.add(str(step.argval))
            elif step.opname in ("STORE_GLOBAL", "STORE_NAME"):
                written.add(str(step.argval))
    return read - written - {"__name__", "__qualname__", "__module__"}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
