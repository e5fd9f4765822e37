"""The entry point. It imports next to nothing, so that Ctrl-C finds it ready from the first moment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 128 + signal.SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (this process's own by default) and return the exit status."""
    if argv is not None:
        from stockade.cli.commands import execute

        return execute(argv)
    listening = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listening:
        signal.signal(signal.SIGINT, _leave)
    _fill_standard_streams()
    try:
        return main(sys.argv[1:])
    finally:
        if listening:  # what is left is to tidy up, undisturbed
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """End at once, until a run takes over the signal: there is nothing yet that would outlive this process.

    An exception would not do: one that comes up in an ``exec`` of some import kills the process at its end,
    although it was caught (``unhandled_keyboard_interrupt`` in CPython's pythonrun.c).
    """
    os._exit(_INTERRUPTED)


def _fill_standard_streams() -> None:
    """Put /dev/null where standard input, output or error is closed, before a socket of ours takes its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
