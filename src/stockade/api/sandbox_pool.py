"""``SandboxPool``: living sandboxes that are started ahead of time, each with an interpreter that waits."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

from stockade.api.sandbox import Sandbox
from stockade.api.sessions.opening import checked_interpreter
from stockade.core.errors import JobError, SandboxClosed
from stockade.core.hints import Hinting, known_options

_MOST = 1000
_HEAD_START = 0.1
"""Seconds before the pool starts a replacement, which would slow down the caller's first work."""


class SandboxPool(Hinting):
    """Keeps sandboxes ready, so that a sandbox with an interpreter is there in a few milliseconds.

    ``create`` makes one of them. ``size`` sandboxes wait at a time, and threads in the background replace those that
    were taken. ``language`` is that of the interpreter that waits in each, or ``None`` for sandboxes without one.
    ``preload`` names Python modules that it has imported.

    Each sandbox is handed out once, and nothing ran in it before but the interpreter's start. While it waits it is
    paused: it takes memory and no processor time, and its ``idle_timeout`` and ``max_lifetime`` stand still.

    Raises ``JobError`` for wrong arguments. What ``create`` raises comes from ``take`` and ``fill``.

        with stockade.SandboxPool(lambda: stockade.Sandbox.create(memory="1GiB"), size=2, preload=["json"]) as pool:
            with pool.take() as sandbox:
                print(sandbox.interpreter().run("json.dumps({})").error)
    """

    @known_options
    def __init__(
        self,
        create: Callable[[], Sandbox],
        *,
        size: int = 1,
        language: str | None = "python",
        preload: Sequence[str] = (),
    ) -> None:
        if not callable(create):
            raise JobError(
                f"create = {create!r:.80}: a function that returns a sandbox, such as "
                f"lambda: stockade.Sandbox.create(memory='1GiB')"
            )
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= _MOST:
            raise JobError(f"size = {size!r}: the number of sandboxes that wait, from 1 to {_MOST}")
        if preload and language is None:
            raise JobError("preload: an interpreter imports the modules, and language=None asks for none")
        if language is not None:
            checked_interpreter(language, preload)
        self._create, self._size, self._language, self._preload = create, size, language, tuple(preload)
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[Sandbox] = deque()
        self._making = 0
        self._closed = False
        self._refill()

    def __repr__(self) -> str:
        """Return one line."""
        return f"<{type(self).__name__}: {'closed' if self._closed else f'{self.waiting} of {self._size} wait'}>"

    def __enter__(self) -> SandboxPool:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pool."""
        self.close()

    @property
    def waiting(self) -> int:
        """The number of sandboxes that wait now."""
        return len(self._waiting)

    def take(self) -> Sandbox:
        """Return a sandbox that waited, or a fresh one if none does. It is the caller's to close.

        Raises what ``create`` raises, ``SetupError`` if the interpreter does not start, and ``JobError`` if the pool is
        closed.
        """
        try:
            while (found := self._next()) is not None:
                try:
                    found.resume()
                except SandboxClosed:  # it has ended while it waited, for example for want of memory on the host
                    found.close()
                else:
                    return found
            return self._make()
        finally:
            self._refill(_HEAD_START)

    def fill(self) -> None:
        """Return when ``size`` sandboxes wait. Raises what ``take`` raises."""
        self._check_open()
        while not self._closed and self.waiting < self._size:
            if self._claim():
                self._add()
                continue
            with self._changed:  # if a thread in the background fails, this one claims the sandbox, and raises why
                self._changed.wait_for(lambda: not self._making)

    def close(self) -> None:
        """End the sandboxes that wait. Those that were taken go on. Closing a closed pool does nothing."""
        if self._owner != os.getpid():
            return
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._making)
        while self._waiting:
            self._waiting.popleft().close()

    def _check_open(self) -> None:
        if self._owner != os.getpid():
            raise JobError(f"the pool is process {self._owner}'s: a process forked from that one cannot use it")
        if self._closed:
            raise JobError("the pool was closed")

    def _next(self) -> Sandbox | None:
        self._check_open()
        with self._changed:
            return self._waiting.popleft() if self._waiting else None

    def _make(self) -> Sandbox:
        made = self._create()
        if not isinstance(made, Sandbox):
            raise JobError(f"create returned {made!r:.80}, which is no Sandbox")
        try:
            if self._language is not None:
                made._prepare(self._language, self._preload)
        except BaseException:
            made.close()
            raise
        return made

    # -- in the background -------------------------------------------------------------------------------------

    def _refill(self, seconds: float = 0.0) -> None:
        """Add what is missing, after so many seconds."""
        if not self._closed and self._owner == os.getpid():
            threading.Thread(target=self._add_missing, args=(seconds,), name="stockade pool", daemon=True).start()

    def _add_missing(self, seconds: float) -> None:
        """An error ends this attempt. The next ``take`` then makes its own sandbox, and raises what that raises."""
        time.sleep(seconds)
        try:
            while self._claim():
                self._add()
        except Exception:
            return

    def _claim(self) -> bool:
        """Return whether one more sandbox is wanted. Then the caller makes it by ``_add``."""
        with self._changed:
            wanted = not self._closed and len(self._waiting) + self._making < self._size
            self._making += wanted
            return wanted

    def _add(self) -> None:
        try:
            made = self._make()
            try:
                made.pause()
            except BaseException:
                made.close()
                raise
            self._waiting.append(made)
        finally:
            with self._changed:
                self._making -= 1
                self._changed.notify_all()
