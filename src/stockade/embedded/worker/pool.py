"""``WorkerPool``: workers that are started ahead of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.api.sandbox_pool import SandboxPool
from stockade.embedded.worker.process import Worker, sandbox_for_worker

if TYPE_CHECKING:
    from types import TracebackType

    from stockade.api.sandbox import Sandbox


class _Sandboxes(SandboxPool):
    """Paused sandboxes, each with the agent of a worker in it."""

    def __init__(self, size: int, memory: int | str | None) -> None:
        self.workers: dict[str, Worker] = {}
        super().__init__(lambda: sandbox_for_worker(memory), size=size, language=None)

    def _make(self) -> Sandbox:
        made = super()._make()
        self.workers[made.id] = Worker(made)
        for ended in [each for each, worker in (*self.workers.items(),) if worker.is_closed]:
            self.workers.pop(ended, None)  # its sandbox ended while it waited
        return made


class WorkerPool:
    """Keeps started workers ready, so that a new ``Runtime`` need not wait for the start of one.

    ``size`` workers wait at a time, and threads in the background replace those that were taken. ``memory`` is the
    limit on each worker's memory, as for ``Runtime``. Each worker serves one runtime and is never used again. While it
    waits it is paused: it takes memory and no processor time.

    Raises ``JobError`` for wrong arguments. What ``stockade.Sandbox.create`` raises comes from ``fill``, or from the
    first call of a runtime.

        with WorkerPool(size=2) as pool, Runtime(Caps.semi_trusted(), trust="semi-trusted", pool=pool) as rt:
            rt.run("1 + 1")
    """

    def __init__(self, *, size: int = 1, memory: int | str | None = None) -> None:
        self._sandboxes = _Sandboxes(size, memory)

    def __repr__(self) -> str:
        """Return one line."""
        return repr(self._sandboxes).replace(type(self._sandboxes).__name__, type(self).__name__)

    def __enter__(self) -> WorkerPool:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pool."""
        self.close()

    @property
    def waiting(self) -> int:
        """The number of workers that wait now."""
        return self._sandboxes.waiting

    def fill(self) -> None:
        """Return when ``size`` workers wait."""
        self._sandboxes.fill()

    def close(self) -> None:
        """End the workers that wait. Runtimes that have one go on."""
        self._sandboxes.close()

    def _take(self) -> Worker:
        return self._sandboxes.workers.pop(self._sandboxes.take().id)
