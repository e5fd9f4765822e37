"""Explain a failure of sandbox set-up: the step, the call, the error, and the remedy."""

from __future__ import annotations

import errno
import opcode
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Any

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC)
"""Errors of a call that may succeed after something else has ended."""
_ARGUMENT, _TEXT = 80, 400
"""Longest argument and longest text that an explanation shows, in characters."""
_ALLOW = "allow the call in the filter or security module of the container or service that stockade runs in"
_PATHS = "check that the path exists, and that the calling user may reach it"
_REMEDIES = {
    errno.EMFILE: "raise the limit on open files (ulimit -n), or run less at a time",
    errno.ENFILE: "raise the host's limit on open files (fs.file-max), or run less at a time",
    errno.ENOSPC: "free space on the device, or raise the limit: for namespaces user.max_*_namespaces, for control "
    "groups cgroup.max.descendants",
    errno.EDQUOT: "free space of the user's quota",
    errno.ENOMEM: "free memory on the host, or give the calling process's control group more",
    errno.EAGAIN: "raise the limit on processes (of a sandbox by processes=, of the host by ulimit -u, pids.max or "
    "kernel.pid_max), or run less at a time",
    errno.EPERM: f"{_ALLOW}; stockade doctor shows what this host refuses",
    errno.EACCES: f"give the calling user access, or {_ALLOW}",
    errno.ENOSYS: f"use Linux 5.10 or newer, or {_ALLOW}",
    errno.EROFS: "make the file system writable",
    errno.ENOENT: _PATHS,
    errno.ENOTDIR: _PATHS,
    errno.ELOOP: "name a path without symbolic links",
    errno.EXDEV: "name a path without symbolic links",
    errno.ENODEV: "remove no control group or device while a run uses it",
    errno.ETIMEDOUT: "run less at a time, or look for a process that was stopped",
    errno.EPIPE: "look in the kernel's log for what ended the process",
    errno.ECONNRESET: "look in the kernel's log for what ended the process",
    errno.ECHILD: "look in the kernel's log for what ended the process",
    errno.ESRCH: "look in the kernel's log for what ended the process",
    errno.EBUSY: "end what holds it, or try again",
    errno.EINVAL: "use Linux 5.10 or newer; stockade doctor shows what this host lacks",
}
_REPORT = "run stockade doctor, and report this with what it says"
_LOADS = {
    opcode.opmap[name] for name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD") if name in opcode.opmap
}


def explain(step: str, error: BaseException) -> str:
    """Return one text: the step, the failed call, the kernel's error, and a remedy.

    For an ``error`` that is ``Explained`` already, only the step is added in front of its text.
    """
    if isinstance(error, Explained):
        return f"{step}: {error.strerror}"
    number = error.errno if isinstance(error, OSError) else None
    if number is None:
        return f"{step}: {_call(error)}{type(error).__name__}: {shown(error)}; {_REPORT}"
    reason, name = os.strerror(number), errno.errorcode.get(number, str(number))
    text = shown(error.strerror or "") if isinstance(error, OSError) else ""
    text = text.removesuffix(reason).rstrip(": ")
    call = f"{text}: " if text else _call(error)
    paths = [path for path in (getattr(error, "filename", None), getattr(error, "filename2", None)) if path]
    on = f" {' '.join(map(argument, paths))}" if paths else ""
    return f"{step}: {call.removesuffix(': ')}{on}: {reason} ({name}); {_REMEDIES.get(number, _REPORT)}"


class Explained(OSError):
    """An error whose text is already complete."""


def explained(step: str, error: BaseException) -> Explained:
    """Return ``error`` as an ``Explained`` error."""
    return Explained(getattr(error, "errno", None), explain(step, error))


def argument(value: Any) -> str:
    """Return a short text for ``value``. Long bytes are shown as their count."""
    if isinstance(value, bytes) and len(value) > _ARGUMENT // 2:
        return f"<{len(value)} bytes>"
    text = repr(value[:_ARGUMENT] if isinstance(value, str | bytes | list | tuple) else value)
    return text if len(text) <= _ARGUMENT else f"{text[: _ARGUMENT - 3]}..."


def arguments(values: Sequence[Any]) -> str:
    """Return a short text for the first two of ``values``."""
    return ", ".join(map(argument, values[:2]))


def shown(text: object) -> str:
    """Return a foreign text on one line, cut if it is long."""
    line = " ".join(str(text).split())
    return line if len(line) <= _TEXT else f"{line[: _TEXT - 3]}..."


def _call(error: BaseException) -> str:
    """Return the call that raised ``error`` as the source spells it, such as ``os.open: ``."""
    innermost: TracebackType | None = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return ""
    code = innermost.tb_frame.f_code
    return f"{'.'.join(_callee(code, innermost.tb_lasti // 2)) or code.co_name}: "


def _callee(code: Any, at: int) -> Iterator[str]:
    """Yield the names in the spelling of a call.

    The instructions that load them come before the call, and have the same start position in the source.
    """
    positions = list(code.co_positions())
    begin = positions[at][0], positions[at][2]
    for index in range(at):
        line, _, column, _ = positions[index]
        operation, number = code.co_code[2 * index : 2 * index + 2]
        if (line, column) != begin or operation not in _LOADS or column is None:
            continue
        shifted = opcode.opname[operation] == "LOAD_GLOBAL" or "LOAD_METHOD" not in opcode.opmap
        if shifted and opcode.opname[operation] != "LOAD_NAME":
            number >>= 1
        if number < len(code.co_names):
            yield code.co_names[number]
