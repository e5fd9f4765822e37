"""Runs a Python job inside the sandbox and reports its value or its error on descriptor 3.

Everything here is in the guest's hands once the guest's code runs: what it reports is the guest's word.
Starts fast, so it imports nothing until there is something to report. Works on Python 3.8 and newer.

Called with a figure (the most lines and turns of loops that the job's own code may take, or 0), the script, and its
arguments. It reports one JSON object a line.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any, NoReturn

    Namespace = dict[str, Any]

_CHANNEL = 3
_FIFO = 1  # the kind of file in its mode (inode(7))
_COMPLETION_MARKER = b"\0stockade\0"  # see warden/wire.py
_EXHAUSTED = 122  # the exit status of a job that has used up its operations
_LONGEST_REPR = 64 * 1024
_LONGEST_VALUE = 512 * 1024
_ONLY_AST = 0x400
_PAST_LONG = 1 << 63
_FUTURES = 0x1FFF000  # compiler flags of __future__ features, kept for the last expression
_NO_WARNING = ("error", None, Warning, None, 0)
"""A filter (see ``warnings``): what there is to be warned of is told when all is compiled as one, and once."""


def main() -> None:
    """Run the script that the command line names, as ``__main__``."""
    os.set_inheritable(_CHANNEL, False)
    most, script = int(sys.argv[1]), sys.argv[2]
    del sys.argv[:2]
    sys.path[0] = os.getcwd()
    source = content(script)
    module = type(sys)("__main__")
    module.__file__ = script
    vars(module)["__builtins__"] = __builtins__
    module.__annotations__ = {}
    sys.modules["__main__"] = module
    if hasattr(sys.stdout, "reconfigure") and not sys.stdout.line_buffering:
        sys.stdout.reconfigure(line_buffering=True)  # what was printed survives a kill
    counted = count(most) if most else None
    try:
        has_value, value = run(source, script, vars(module))
    except SystemExit:
        raise
    except BaseException as error:
        fail(error)
    else:
        if has_value and value is not None:
            succeed(value)
    finally:
        if counted is not None:
            say('{"operations": ' + str(counted()) + "}")


def content(path: str) -> bytes:
    """Return what a file holds: a file object for it would take several times as long."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    data = b""
    while piece := os.read(fd, 1 << 20):
        data += piece
    os.close(fd)
    return data


def run(source: bytes, script: str, namespace: Namespace) -> tuple[bool, Any]:
    """Execute ``source``; return whether its last statement is an expression, and the expression's value."""
    split_code = split(source, script)
    if split_code is not None:
        first, end, has_value = split_code
        if first is not None:
            exec(first, namespace)
        return has_value, eval(end, namespace)
    tree = compile(source, script, "exec", _ONLY_AST, True)
    last: Any = tree.body[-1] if tree.body else None
    if type(last).__name__ != "Expr":
        exec(compile(tree, script, "exec", 0, True), namespace)
        return False, None
    if len(tree.body) > 1:  # a lone expression stays, so that a docstring is still one
        del tree.body[-1]
        code = compile(tree, script, "exec", 0, True)
        exec(code, namespace)
        flags = code.co_flags & _FUTURES
    else:
        flags = 0
    alone: Any = compile(b"0", script, "eval", _ONLY_AST, True)  # an Expression, without importing ast for it
    alone.body = last.value
    return True, eval(compile(alone, script, "eval", flags, True), namespace)


def split(source: bytes, script: str) -> tuple[CodeType | None, CodeType, bool] | None:
    """Return the code of all but the last statement (``None`` for none), that of the last one, and whether this is an
    expression; or nothing where the text does not tell. A tree of objects always does, and takes longer than all else.

    The last line without indentation begins the last statement if what is before it compiles by itself; and both
    alone do then what they do together.
    """
    lines = source.splitlines(True)
    if b"\r" in source or b"\f" in source or b"__future__" in source or any(b"coding" in line for line in lines[:2]):
        return None  # lines end as nobody expects, or one says how to read the others
    at = len(lines) - 1
    while at > 0 and lines[at][:1] in b" \t\n#":
        at -= 1
    head, tail = b"".join(lines[:at]), b"\n" * at + b"".join(lines[at:])
    filters: list[Any] = (sys.modules.get("warnings") or sys.modules["_warnings"]).filters
    filters.insert(0, _NO_WARNING)
    try:
        try:
            last, has_value = compile(tail, script, "eval", 0, True), True
        except SyntaxError:
            if b";" in tail or b"global" in tail:
                return None  # more than one statement, or one whose place among the others matters
            last, has_value = compile(tail, script, "exec", 0, True), False
            if "__annotate__" in last.co_names:
                return None
        first = compile(head, script, "exec", 0, True) if head.strip() else None
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError, Warning):
        return None
    finally:
        filters.remove(_NO_WARNING)
    return first, last, has_value


def count(most: int) -> Callable[[], int]:
    """Count lines and turns of loops of the job's own code in all threads; end the process at the one after ``most``.

    Nothing is raised: an exception in a trace function would only end the tracing. Returns what tells the count.
    What counts is what is neither the interpreter's nor an installed package's, so also code made from text.
    """
    import itertools

    foreign = (*(place + "/" for place in sys.path[1:] if place), "<frozen ", __file__)
    tick = itertools.count(1).__next__  # one step for all threads
    pid, flush = os.getpid(), sys.stdout.flush

    class Own(dict):  # type: ignore[type-arg]
        """File name to whether its code is the job's."""

        def __missing__(self, name: str) -> bool:
            self[name] = own = not name.startswith(foreign)
            return own

    def end() -> NoReturn:
        try:
            if os.getpid() == pid:  # a forked copy ends alone
                flush()
                say('\n{"operations": ' + str(most) + "}")
        finally:
            os._exit(_EXHAUSTED)

    def step() -> object:
        return end() if tick() > most else None

    (monitor if hasattr(sys, "monitoring") else trace)(Own(), step)
    return lambda: min(tick() - 1, most)


def monitor(own: dict[str, bool], step: Callable[[], object]) -> None:
    """Count by ``sys.monitoring`` (Python 3.12). A place that does not count is left alone after its first time."""
    monitoring: Any = vars(sys)["monitoring"]
    off, events = monitoring.DISABLE, monitoring.events

    def line(code: CodeType, _line: int) -> object:
        return step() if own[code.co_filename] else off

    turns: dict[tuple[int, int], tuple[bool, CodeType]] = {}  # by id, as below

    def jump(code: CodeType, at: int, to: int) -> object:
        # A turn of a loop on one line; on more than one, each line of it is told anyway.
        known = turns.get((id(code), at))
        if known is None:
            turn = to <= at and own[code.co_filename] and line_of(code, at) == line_of(code, to)
            known = turns[id(code), at] = (turn, code)
        return step() if known[0] else off

    def start(code: CodeType, _at: int) -> object:
        # A function on the line of its ``def``: Python 3.13 tells of no line in it.
        alone = own[code.co_filename] and all(number == code.co_firstlineno for _, _, number in code.co_lines())
        return step() if alone else off

    tool = next(number for number in (4, 3, 5, 2) if monitoring.get_tool(number) is None)
    monitoring.use_tool_id(tool, "stockade")
    monitoring.register_callback(tool, events.LINE, line)
    monitoring.register_callback(tool, events.JUMP, jump)
    wanted = events.LINE | events.JUMP
    if sys.version_info >= (3, 13):
        monitoring.register_callback(tool, events.PY_START, start)
        wanted |= events.PY_START
    monitoring.set_events(tool, wanted)


def line_of(code: CodeType, at: int) -> int | None:
    """Return the line of the instruction at this offset."""
    return next((line for begin, end, line in code.co_lines() if begin <= at < end), None)


def trace(own: dict[str, bool], step: Callable[[], object]) -> None:
    """Count by ``sys.settrace``, which tells of a jump back on one line as of a line."""
    import threading

    seen: dict[int, tuple[CodeType, tuple[int, ...]]] = {}  # by id, since to hash code takes long; kept, so it stays

    def local(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line" or (event == "opcode" and frame.f_lasti in seen[id(frame.f_code)][1]):
            step()
        return local

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if not own[code.co_filename]:
            return None
        known = seen.get(id(code)) or seen.setdefault(id(code), (code, idle_loops(code)))
        frame.f_trace_opcodes = bool(known[1])
        return local

    threading.settrace(enter)
    sys.settrace(enter)


def idle_loops(code: CodeType) -> tuple[int, ...]:
    """Return where an instruction jumps to itself, as ``while True: pass`` does: no line is told of that."""
    if sys.version_info < (3, 10):  # noqa: UP036
        return ()  # there such a loop has two instructions
    import dis

    jumps = {*dis.hasjrel, *dis.hasjabs}
    return tuple(
        each.offset for each in dis.get_instructions(code) if each.opcode in jumps and each.argval == each.offset
    )


def succeed(value: Any) -> None:
    """Report the value of the last expression: its repr, and the value itself where JSON can hold it."""
    try:
        text = repr(value)
    except Exception as error:
        text = "<repr failed: " + describe(error) + ">"
    report = {"repr": text[:_LONGEST_REPR]}
    try:
        report["value"] = value
        body = dumps(report)
        if len(body) > _LONGEST_VALUE:
            raise ValueError("too large to report")
    except (TypeError, ValueError, RecursionError):
        report.pop("value", None)
        body = dumps(report)
    say(body)


def dumps(value: Any) -> str:
    """Return ``value`` as JSON: by what of the ``json`` module is in C, since to import the rest takes ten times as
    long as many a job."""
    parts = accelerator()
    if parts:
        make, encode_text = parts
        try:
            encode = make({}, refuse, encode_text, None, ": ", ", ", False, False, False)
        except TypeError:
            pass  # an interpreter that has it otherwise
        else:
            return "".join(encode(value, 0))
    import json

    return json.dumps(value, allow_nan=False)


def accelerator(found: list[tuple[Any, ...]] = []) -> tuple[Any, ...]:  # noqa: B006 - looked for once
    """Return what makes an encoder and what spells text, or nothing."""
    if not found:
        try:
            from _json import encode_basestring_ascii, make_encoder

            found.append((make_encoder, encode_basestring_ascii))
        except ImportError:
            found.append(())
    return found[0]


def refuse(value: object) -> NoReturn:
    """Say that JSON has nothing for such a value."""
    raise TypeError(type(value).__name__ + " is not JSON")


def fail(error: BaseException) -> None:
    """Report an error with the frames of the job's own code, and end as an interpreter does."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error = error.with_traceback(trace)
    lines = formatted(error)
    message = message_of(error)
    report = {"type": str(type(error).__name__), "message": message[:_LONGEST_REPR], "traceback": lines[:_LONGEST_REPR]}
    say(dumps({"error": report}))
    sys.excepthook(type(error), error, trace)
    sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def describe(error: BaseException) -> str:
    """Return the type of an error and its message, as the last line of a traceback has them."""
    return type(error).__name__ + (": " + message_of(error)).rstrip(": ")


def message_of(error: BaseException) -> str:
    """Return the message of an error, whatever its ``__str__`` does."""
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


def formatted(error: BaseException) -> str:
    """Return what the interpreter prints of an error: for that it needs no module, where ``traceback`` needs ten."""
    text = ""
    if len(sys._current_frames()) == 1:  # or another thread may be printing
        try:
            text = printed(error)
        except Exception:
            text = ""  # the job has taken away what is needed
    if not text:
        import traceback

        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return text


def printed(error: BaseException) -> str:
    """Have the interpreter print an error, and return what it has written."""
    import io

    stderr, sys.stderr = getattr(sys, "stderr", None), io.StringIO()
    try:
        sys.__excepthook__(type(error), error, error.__traceback__)
        return sys.stderr.getvalue()
    finally:
        sys.stderr = stderr


def exit_status(error: SystemExit) -> int:
    """Return the status that ``sys.exit`` asks for, and print what it was given instead of one."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -_PAST_LONG <= code < _PAST_LONG else 0xFF  # as an interpreter that reads a C long
    for what in (code, ""):
        try:
            print(what, file=sys.stderr)
            break
        except BaseException:
            continue  # then the line ends, at least, if anybody can be told
    return 1


def mark_completion(status: int) -> bool:
    """Say that the job has ended and with which status, which is as much its own choice as an exit status is. Return
    whether that was possible: the job may have closed the channel, and then its end is waited for."""
    try:
        if not is_open():
            return False
        return os.write(_CHANNEL, _COMPLETION_MARKER + bytes((status & 0xFF,))) > 0
    except OSError:
        return False


def say(body: str) -> None:
    """Write a line of the report; the reader may have stopped listening."""
    data = body.encode("utf-8", "surrogatepass") + b"\n"
    try:
        while data and is_open():
            data = data[os.write(_CHANNEL, data) :]
    except OSError:
        pass


def is_open() -> bool:
    """Return whether the channel leads to a pipe: a job may have closed it, and have a file of its own there."""
    return os.fstat(_CHANNEL).st_mode >> 12 == _FIFO


if __name__ == "__main__":
    main()
