"""Runs a Python job inside the sandbox and reports its value or its error on descriptor 3.

Everything here is in the guest's hands once the guest's code runs: what it reports is the guest's word.
Starts fast, so it imports nothing until there is something to report. Works on Python 3.8 and newer.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Namespace = dict[str, Any]

_CHANNEL = 3
_LONGEST_REPR = 64 * 1024
_LONGEST_VALUE = 512 * 1024
_ONLY_AST = 0x400
_FUTURES = 0x1FFF000  # compiler flags of __future__ features, kept for the last expression


def main() -> None:
    """Run the script that the command line names, as ``__main__``."""
    os.set_inheritable(_CHANNEL, False)
    script = sys.argv[1]
    del sys.argv[0]
    sys.path[0] = os.getcwd()
    with open(script, "rb") as file:
        source = file.read()
    module = type(sys)("__main__")
    module.__file__ = script
    vars(module)["__builtins__"] = __builtins__
    module.__annotations__ = {}
    sys.modules["__main__"] = module
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # what was printed survives a kill
    try:
        has_value, value = run(source, script, vars(module))
    except SystemExit:
        raise
    except BaseException as error:
        fail(error)
    else:
        if has_value and value is not None:
            succeed(value)


def run(source: bytes, script: str, namespace: Namespace) -> tuple[bool, Any]:
    """Execute ``source``; return whether its last statement is an expression, and the expression's value."""
    tree = compile(source, script, "exec", _ONLY_AST, True)
    last: Any = tree.body[-1] if tree.body else None
    if type(last).__name__ != "Expr":
        exec(compile(tree, script, "exec", 0, True), namespace)
        return False, None
    import _ast

    if len(tree.body) > 1:  # a lone expression stays, so that a docstring is still one
        del tree.body[-1]
        code = compile(tree, script, "exec", 0, True)
        exec(code, namespace)
        flags = code.co_flags & _FUTURES
    else:
        flags = 0
    return True, eval(compile(_ast.Expression(last.value), script, "eval", flags, True), namespace)


def succeed(value: Any) -> None:
    """Report the value of the last expression: its repr, and the value itself where JSON can hold it."""
    import json

    try:
        text = repr(value)
    except Exception as error:
        text = "<repr failed: " + type(error).__name__ + ">"
    report = {"repr": text[:_LONGEST_REPR]}
    try:
        report["value"] = value
        body = json.dumps(report, allow_nan=False)
        if len(body) > _LONGEST_VALUE:
            raise ValueError("too large to report")
    except (TypeError, ValueError, RecursionError):
        report.pop("value", None)
        body = json.dumps(report)
    say(body)


def fail(error: BaseException) -> None:
    """Report an error with the frames of the job's own code, and end as an interpreter does."""
    import json
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error = error.with_traceback(trace)
    lines = traceback.format_exception(type(error), error, trace)
    try:
        message = str(error)
    except Exception:
        message = ""
    kind = type(error).__name__
    report = {"type": kind, "message": message[:_LONGEST_REPR], "traceback": "".join(lines)[:_LONGEST_REPR]}
    say(json.dumps({"error": report}))
    sys.excepthook(type(error), error, trace)
    sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def say(body: str) -> None:
    """Write the report; the reader may have stopped listening."""
    data = body.encode("utf-8", "surrogatepass")
    try:
        while data:
            data = data[os.write(_CHANNEL, data) :]
        os.close(_CHANNEL)
    except OSError:
        pass


if __name__ == "__main__":
    main()
