"""Late imports of stockade's own modules: safe beside threads that fork, with a clear error if the files are gone.

If one thread forks while another imports a module, the module stays half imported in the child and its lock stays
taken there. So every late import holds one lock, the gate, and a fork waits for the gate.
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
"""A fork waits no longer than this: the import may itself wait for a module that the forking thread is importing."""
_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is slow to import


class Loading:
    """The gate: a context manager around late imports. Raises ``SetupError`` if stockade's own files are gone."""

    def __init__(self) -> None:
        self._lock = _thread.RLock()
        self._held: dict[int, bool] = {}

    def __enter__(self) -> None:
        """Acquire the gate."""
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the gate."""
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
        """Wait for the imports of other threads to finish."""
        self._held[_thread.get_ident()] = self._lock.acquire(timeout=_FORK_WAITS_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Let the imports of other threads continue."""
        if self._held.pop(_thread.get_ident(), False):
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Release the gate, or make a new one if a thread of the parent holds it."""
        held = self._held.pop(_thread.get_ident(), False)
        self._held.clear()
        if held:
            self._lock.release()
        else:
            self._lock = _thread.RLock()


def removed(step: str) -> Exception:
    """Return the error for a ``step`` that needs one of stockade's own files, which is gone."""
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
    """Return the object that ``place`` names as ``module:attribute`` or ``module``; import the module if needed."""
    module, _, attribute = place.partition(":")
    with loading:
        found = sys.modules.get(module)
        if found is None:  # a loaded module needs no import, so no free descriptor either
            from importlib import import_module

            found = import_module(module)
        return getattr(found, attribute) if attribute else found
