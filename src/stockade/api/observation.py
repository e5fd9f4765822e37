"""Call the hooks of one run."""

from __future__ import annotations

import secrets
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from stockade.api import configured
from stockade.core import log
from stockade.core.errors import StockadeError
from stockade.runs.events import Event, Finished, LimitReached
from stockade.runs.hooks import ABANDONED, Hooks, Kind, RunInfo
from stockade.runs.result import Outcome

if TYPE_CHECKING:
    from asyncio import Task

    from stockade.planning.plan import Plan
    from stockade.runs.job import Job

_tasks: set[Task[None]] = set()
"""Hooks that are coroutines and run now. An event loop itself keeps only weak references to its tasks."""


class Observation:
    """The hooks of one run, as a context around it. ``note`` takes each event."""

    def __init__(self, hooks: tuple[Hooks, ...], info: RunInfo) -> None:
        """Call nothing yet: the run starts when the context is entered."""
        self.info = info
        self._hooks = hooks
        self._called: list[Hooks] = []
        self._over = False

    def __enter__(self) -> Self:
        """Call ``on_start``. An exception from it refuses the run, unless the hooks say otherwise."""
        try:
            for hooks in self._hooks:
                self._called.append(hooks)
                self._start(hooks)
        except BaseException as error:
            self._called.pop()
            self._leave(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Call ``on_error`` if no verdict has come."""
        self._leave(error)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Call ``on_error`` for an error of stockade's own before the run starts."""
        try:
            yield
        except StockadeError as error:
            if not (self._called or self._over):
                self._called = [*self._hooks]
                self._leave(error)
            raise

    def note(self, event: Event) -> None:
        """Call the hooks that learn of ``event``."""
        if isinstance(event, LimitReached):
            self._call("on_warning" if event.is_warning else "on_limit", event)
        elif isinstance(event, Finished):
            self._over = True
            result = event.result
            for denial in result.denials:
                self._call("on_denial", denial)
            if result.outcome is Outcome.SANDBOX_FAILED:
                self._call("on_error", result.error.message if result.error is not None else "the sandbox failed")
            self._call("on_finish", result)

    def _start(self, hooks: Hooks) -> None:
        if hooks.on_start is None:
            return
        try:
            _finish(hooks.on_start(self.info))
        except Exception as error:
            if hooks.failures == "refuse":
                raise
            _log("on_start", error)

    def _leave(self, error: BaseException | None) -> None:
        if not self._over:
            self._over = True
            left = error is None or isinstance(error, GeneratorExit)
            self._call("on_error", ABANDONED if left else f"{type(error).__name__}: {error}")

    def _call(self, name: str, value: Any) -> None:
        for hooks in self._called:
            hook = getattr(hooks, name)
            if hook is None:
                continue
            try:
                _finish(hook(self.info, value))
            except Exception as error:
                _log(name, error)


def observation(
    hooks: Hooks | None, plan: Plan, kind: Kind, job: Job, labels: Mapping[str, str], *, sandbox: str = ""
) -> Observation:
    """Return the observation of a run by ``hooks`` and by those of the whole process.

    ``sandbox`` is the id of the living sandbox, if the run is one or is in one.
    """
    together = (*configured.hooks(), *((hooks,) if hooks is not None else ()))
    if not together:
        return UNOBSERVED
    info = RunInfo(
        id=secrets.token_hex(8),
        kind=kind,
        backend=plan.backend,
        policy=plan.policy,
        labels=labels,
        language=job.language,
        argv=() if kind == "sandbox" else job.argv,
        source=job.source,
        sandbox=sandbox,
    )
    return Observation(together, info)


class _Unobserved(Observation):
    """Calls nothing, for the many runs without hooks."""

    def __init__(self) -> None:
        super().__init__((), None)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @contextmanager
    def refusals(self) -> Iterator[None]:
        yield

    def note(self, event: Event) -> None:
        pass


UNOBSERVED: Observation = _Unobserved()


def _finish(outcome: Any) -> None:
    """Make a task of a hook's coroutine. Raises ``RuntimeError`` if no event loop runs."""
    if isinstance(outcome, CoroutineType):
        import asyncio  # slow to import, and few hooks are coroutines

        try:
            task = asyncio.get_running_loop().create_task(_logged(outcome))
        except RuntimeError:
            outcome.close()
            raise RuntimeError("a hook that is a coroutine function needs a running event loop") from None
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)


async def _logged(hook: Coroutine[Any, Any, Any]) -> None:
    try:
        await hook
    except Exception as error:
        _log(getattr(hook, "__qualname__", "a coroutine"), error)


def _log(name: str, error: Exception) -> None:
    log.error("hook %s failed: %s: %s", name, type(error).__name__, error)
