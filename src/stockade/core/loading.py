"""Imports of parts of stockade when a caller first needs them: safe beside threads that fork, and clear when the files
are gone.

A module that one thread is importing while another one forks stays half imported in the child, and its lock stays
taken there. So every late import holds the gate, and a fork waits for the gate.
"""

from __future__ import annotations

import _thread
import errno
import os
import sys

from stockade.core.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_FORK_WAITS_SECONDS = 10.0
"""Past this a fork goes on: the import may itself wait for a module that the forking thread is importing."""
_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is slow to import


class Loading:
    """The gate, as a context manager around late imports. Raises ``SetupError`` where stockade's own files are gone."""

    def __init__(self) -> None:
        self._lock = _thread.RLock()
        self._held: dict[int, bool] = {}

    def __enter__(self) -> None:
        """Take the gate."""
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the gate."""
        self._lock.release()
        missing = error.name if isinstance(error, ImportError) else None
        if missing is not None and missing.partition(".")[0] == "stockade":
            raise removed(f"import {missing}") from error
        if isinstance(error, OSError) and error.errno is not None:
            raise SetupError(
                f"import stockade's own modules: open {error.filename}: {os.strerror(error.errno)} "
                f"({errno.errorcode.get(error.errno)}); make the file readable, or raise the limit on open files "
                f"(ulimit -n)"
            ) from error

    def before_fork(self) -> None:
        """Wait for the imports of other threads."""
        self._held[_thread.get_ident()] = self._lock.acquire(timeout=_FORK_WAITS_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Let them go on."""
        if self._held.pop(_thread.get_ident(), False):
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Let go of the gate, or make a new one if a thread that is not here holds it."""
        held = self._held.pop(_thread.get_ident(), False)
        self._held.clear()
        if held:
            self._lock.release()
        else:
            self._lock = _thread.RLock()


def removed(step: str) -> Exception:
    """Return the error of a ``step`` that needs a file of stockade's own, which is not there any more."""
    return SetupError(
        f"{step}: stockade's files in {_FOLDER} were removed or replaced while this process runs; install stockade "
        f"again and restart the process"
    )


loading = Loading()
os.register_at_fork(
    before=loading.before_fork,
    after_in_parent=loading.after_fork_in_parent,
    after_in_child=loading.after_fork_in_child,
)


def load(place: str) -> Any:
    """Return what ``place`` names, ``module:attribute`` or ``module``; import the module if need be."""
    module, _, attribute = place.partition(":")
    with loading:
        found = sys.modules.get(module)
        if found is None:  # or no descriptor need be free
            from importlib import import_module

            found = import_module(module)
        return getattr(found, attribute) if attribute else found
