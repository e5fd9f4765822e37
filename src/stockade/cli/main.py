"""The entry point. It imports very little, so that Ctrl-C is handled from the first moment."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 128 + signal.SIGINT
_NEW_OBJECTS = 100_000
"""After so many new objects, the garbage collector looks for cycles. A run makes fewer, and nearly all of them stay."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: that of this process) and return the exit status."""
    if argv is not None:
        from stockade.cli.commands import execute

        return execute(argv)
    gc.set_threshold(_NEW_OBJECTS)
    listening = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listening:
        signal.signal(signal.SIGINT, _leave)
    _fill_standard_streams()
    try:
        return main(sys.argv[1:])
    finally:
        if listening:  # only clean-up remains, which a signal must not interrupt
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.freeze()  # otherwise the end of the interpreter looks for cycles twice more


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the process at once. Until a run takes over the signal, nothing exists that would outlive the process.

    An exception would not do. If it is raised in an ``exec`` of an import, CPython kills the process at its end,
    although the exception was caught (``unhandled_keyboard_interrupt`` in pythonrun.c).
    """
    os._exit(_INTERRUPTED)


def _fill_standard_streams() -> None:
    """Open /dev/null in place of a closed standard stream, before a socket of ours takes its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # opens the lowest free number, which is fd
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
