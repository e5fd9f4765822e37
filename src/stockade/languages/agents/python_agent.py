"""Runs a Python job inside the sandbox and reports its value or its error on descriptor 3.

Once the guest's code runs, it controls everything in this process, so nobody may trust the report. This file starts
fast: it imports nothing until there is something to report. It works on Python 3.8 and newer, and it stays one file,
because it is copied into the sandbox as a whole (ADR 40).

Arguments: the most operations (lines and loop iterations) of the job's own code, or 0 for no limit; the script; its
arguments. The report is one JSON object a line.
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
_inode = [0]  # of the channel, in a process that runs one job; elsewhere, the channel is a pipe
_COMPLETION_MARKER = b"\0stockade\0"  # see warden/protocol.py
EXHAUSTED = 122  # the exit status of a job that has used up its operations
_LONGEST_REPR = 64 * 1024
_LONGEST_VALUE = 512 * 1024
_ONLY_AST = 0x400
_PAST_LONG = 1 << 63
_FUTURES = 0x1FFF000  # compiler flags of __future__ features, kept for the last expression
_NO_WARNING = ("error", None, Warning, None, 0)
"""A filter for ``warnings``. A warning makes ``split`` fail, so it comes once, when the program is compiled whole."""


def main() -> None:
    """Run the script that the command line names, as ``__main__``."""
    _inode[0] = os.fstat(_CHANNEL).st_ino
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
        sys.stdout.reconfigure(line_buffering=True)  # a kill must not lose finished lines
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
            write_line('{"operations": ' + str(counted()) + "}")


def content(path: str) -> bytes:
    """Return the content of a file. A file object would take several times as long."""
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
    if len(tree.body) > 1:  # keep a lone expression, so that a docstring still works
        del tree.body[-1]
        code = compile(tree, script, "exec", 0, True)
        exec(code, namespace)
        flags = code.co_flags & _FUTURES
    else:
        flags = 0
    alone: Any = compile(b"0", script, "eval", _ONLY_AST, True)  # makes an Expression without importing ast
    alone.body = last.value
    return True, eval(compile(alone, script, "eval", flags, True), namespace)


def split(source: bytes, script: str) -> tuple[CodeType | None, CodeType, bool] | None:
    """Split a program before its last statement, without building a syntax tree, which would take longest of all.

    Returns the code of the first part (``None`` if empty), the code of the last statement, and whether that is an
    expression. Returns ``None`` if the text alone does not show where to split; the caller then uses a tree.

    The last line without indentation begins the last statement, if the part before it compiles by itself. Both parts
    then do the same as the whole program.
    """
    lines = source.splitlines(True)
    if b"\r" in source or b"\f" in source or b"__future__" in source or any(b"coding" in line for line in lines[:2]):
        return None  # unusual line ends, or a line that changes how the others are read
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
                return None  # several statements, or one that must be compiled with the others
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
    """Count lines and loop iterations of the job's own code in all threads; end the process after ``most``.

    The job's own code includes code made from text. It excludes the interpreter's files and installed packages.
    Ending the process is necessary, because an exception in a trace function would only end the tracing. Returns a
    function that returns the count.
    """
    import itertools

    foreign = (*(folder + "/" for folder in sys.path[1:] if folder), "<frozen ", __file__)
    tick = itertools.count(1).__next__  # atomic, so threads need no lock
    pid, flush = os.getpid(), sys.stdout.flush

    class Own(dict):  # type: ignore[type-arg]
        """Maps a file name to whether its code is the job's."""

        def __missing__(self, name: str) -> bool:
            self[name] = own = not name.startswith(foreign)
            return own

    def end() -> NoReturn:
        try:
            if os.getpid() == pid:  # a forked child of the job ends without a report
                flush()
                write_line('\n{"operations": ' + str(most) + "}")
        finally:
            os._exit(EXHAUSTED)

    def step() -> object:
        return end() if tick() > most else None

    (monitor if hasattr(sys, "monitoring") else trace)(Own(), step)
    return lambda: min(tick() - 1, most)


def monitor(own: dict[str, bool], step: Callable[[], object]) -> None:
    """Count by ``sys.monitoring`` (Python 3.12). A location that does not count is disabled after its first event."""
    monitoring: Any = vars(sys)["monitoring"]
    off, events = monitoring.DISABLE, monitoring.events

    def line(code: CodeType, _line: int) -> object:
        return step() if own[code.co_filename] else off

    turns: dict[tuple[int, int], tuple[bool, CodeType]] = {}  # by id, as in ``trace``

    def jump(code: CodeType, at: int, to: int) -> object:
        # Count an iteration of a loop on one line. In a longer loop the line events count already.
        known = turns.get((id(code), at))
        if known is None:
            turn = to <= at and own[code.co_filename] and line_of(code, at) == line_of(code, to)
            known = turns[id(code), at] = (turn, code)
        return step() if known[0] else off

    def start(code: CodeType, _at: int) -> object:
        # Count a call of a function that lies on the line of its ``def``: Python 3.13 has no line event for it.
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
    """Count by ``sys.settrace``, which reports a jump back within a line as a line."""
    import threading

    seen: dict[int, tuple[CodeType, tuple[int, ...]]] = {}  # by id, as hashing code is slow; keeping code keeps its id

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
    """Return the offsets of instructions that jump to themselves (``while True: pass``), which cause no line event."""
    if sys.version_info < (3, 10):  # noqa: UP036
        return ()  # such a loop has two instructions there
    import dis

    jumps = {*dis.hasjrel, *dis.hasjabs}
    return tuple(
        each.offset for each in dis.get_instructions(code) if each.opcode in jumps and each.argval == each.offset
    )


def succeed(value: Any) -> None:
    """Report the value of the last expression: its repr, and the value itself if JSON can represent it."""
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
    write_line(body)


def dumps(value: Any) -> str:
    """Return ``value`` as JSON, using only the part of ``json`` that is written in C.

    To import the rest of ``json`` takes ten times as long as many jobs.
    """
    parts = accelerator()
    if parts:
        make, encode_text = parts
        try:
            encode = make({}, refuse, encode_text, None, ": ", ", ", False, False, False)
        except TypeError:
            pass  # this interpreter's encoder has other arguments
        else:
            return "".join(encode(value, 0))
    import json

    return json.dumps(value, allow_nan=False)


def accelerator(found: list[tuple[Any, ...]] = []) -> tuple[Any, ...]:  # noqa: B006 - a cache
    """Return C functions that make a JSON encoder and encode text, or an empty tuple."""
    if not found:
        try:
            from _json import encode_basestring_ascii, make_encoder

            found.append((make_encoder, encode_basestring_ascii))
        except ImportError:
            found.append(())
    return found[0]


def refuse(value: object) -> NoReturn:
    """Raise ``TypeError`` for a value that JSON cannot represent."""
    raise TypeError(type(value).__name__ + " is not JSON")


def fail(error: BaseException) -> None:
    """Report an error with the frames of the job's own code, and exit with Python's usual status."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    cut_own_end(trace)
    error = error.with_traceback(trace)
    lines = formatted(error)
    message = message_of(error)
    report = {"type": str(type(error).__name__), "message": message[:_LONGEST_REPR], "traceback": lines[:_LONGEST_REPR]}
    write_line(dumps({"error": report}))
    sys.excepthook(type(error), error, trace)
    sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def cut_own_end(trace: Any) -> None:
    """Drop the last frames if they are of this file: a deep recursion can end in the function that counts lines."""
    last = None
    while trace is not None:
        last = trace if last is None or trace.tb_frame.f_code.co_filename != __file__ else last
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


def describe(error: BaseException) -> str:
    """Return the type and the message of an error, like the last line of a traceback."""
    return type(error).__name__ + (": " + message_of(error)).rstrip(": ")


def message_of(error: BaseException) -> str:
    """Return the message of an error, even if its ``__str__`` fails."""
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


def formatted(error: BaseException) -> str:
    """Return the interpreter's own print of an error. This needs no module, and ``traceback`` needs ten."""
    text = ""
    if len(sys._current_frames()) == 1:  # with more threads, another one may be printing now
        try:
            text = printed(error)
        except Exception:
            text = ""  # the job has removed something that is needed
    if not text:
        import traceback

        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return text


def printed(error: BaseException) -> str:
    """Make the interpreter print an error, and return the text."""
    import io

    stderr, sys.stderr = getattr(sys, "stderr", None), io.StringIO()
    try:
        sys.__excepthook__(type(error), error, error.__traceback__)
        return sys.stderr.getvalue()
    finally:
        sys.stderr = stderr


def exit_status(error: SystemExit) -> int:
    """Return the status for a ``SystemExit``; print its argument if that is not a status, as Python does."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -_PAST_LONG <= code < _PAST_LONG else 0xFF  # Python reads a C long
    for what in (code, ""):
        try:
            print(what, file=sys.stderr)
            break
        except BaseException:
            continue  # then at least end the line, if that is possible
    return 1


def mark_completion(status: int) -> bool:
    """Write the completion marker and the exit status; return whether that was possible.

    The job can choose this status, as it can choose any exit status. If it has closed the channel, the warden waits for
    the end of the process instead.
    """
    try:
        if not is_open():
            return False
        return os.write(_CHANNEL, _COMPLETION_MARKER + bytes((status & 0xFF,))) > 0
    except OSError:
        return False


def write_line(body: str) -> None:
    """Write one line of the report. Nothing happens if the reader has closed the channel."""
    data = body.encode("utf-8", "surrogatepass") + b"\n"
    try:
        while data and is_open():
            data = data[os.write(_CHANNEL, data) :]
    except OSError:
        pass


def is_open() -> bool:
    """Return whether the channel is what it was: the job may have closed it and opened a file under its number."""
    return os.fstat(_CHANNEL).st_ino == _inode[0] if _inode[0] else os.fstat(_CHANNEL).st_mode >> 12 == 1  # S_IFIFO


if __name__ == "__main__":
    main()
