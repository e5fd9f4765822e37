"""The life cycle that interpreters and shells share."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from stockade.core.hints import Hinting

if TYPE_CHECKING:
    from stockade.api.sessions.session import Session

SECONDS = 60.0
"""The longest that one cell or command may take, where the sandbox sets nothing else."""


class SessionHandle(Hinting):
    """A session in the hands of its caller. Leaving the context closes it."""

    _session: Session

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        self.close()

    def __repr__(self) -> str:
        """Return one line."""
        return f"<{type(self).__name__}: {f'gone: {self._session.ended}' if self._session.ended else 'alive'}>"

    @property
    def alive(self) -> bool:
        """Whether another cell or command can run."""
        return not self._session.ended

    def interrupt(self) -> bool:
        """Interrupt the cell or command that runs now, and return whether one runs. Call it in any thread.

        A cell gets ``KeyboardInterrupt`` or its language's equivalent, and a command SIGINT.
        """
        return self._session.interrupt()

    def restart(self) -> None:
        """Start afresh, without the state of earlier calls. Every process that they left is killed."""
        self._session.restart()

    def close(self) -> None:
        """End the session and every process of it."""
        self._session.close()
