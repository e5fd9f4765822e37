"""``Runtime``: run scripts under caps, call their functions, and lend them functions of the host."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Literal

from stockade.core.errors import FieldProblem, PolicyError, SetupError
from stockade.core.loading import loading
from stockade.embedded.boundary.settings import FROZEN_CLOCK
from stockade.embedded.caps import Caps, Trust, require
from stockade.embedded.endings import Exhausted, Failed, Uncrossable
from stockade.embedded.errors import CrossingError, ResourceExhausted, RuntimeBusy, RuntimeDead, ScriptError
from stockade.embedded.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from stockade.embedded.engine import Engine
    from stockade.embedded.worker.engine import WorkerEngine
    from stockade.embedded.worker.pool import WorkerPool

MOST_OUTPUT = 1_048_576
MOST_OUTPUT_OF_WORKERS = 8 * MOST_OUTPUT


@dataclass(frozen=True)
class Usage:
    """Resources that a runtime has used: units of fuel over all calls."""

    fuel: int


class Runtime:
    """Runs scripts in one namespace under ``caps``. One script runs at a time.

    The scripts run in a worker: a sandbox of their own, which starts with the first call and lives until ``close``.

    Args:
        caps: the limits; none by default.
        trust: how far the author of the scripts is trusted. ``"semi-trusted"`` needs every cap and the worker, and
            ``"untrusted"`` is refused.
        engine: what runs the scripts. ``"metered"`` is the only one.
        in_process: run in this process, with no wall but the weave. A limit then ends a script only between two
            operations.
        memory: the limit on the worker's memory, in bytes or as a text; 256 MiB by default.
        pool: a ``WorkerPool`` from which the worker comes. Its ``memory`` is then the pool's.
        clock: seconds since the epoch that scripts see; their clock stands still.
        seed: the seed of ``random`` in scripts.
        output: characters of printed text that are kept.

    Raises:
        PolicyError: the caps, or the trust in this configuration, are refused.
        SetupError: the configuration is unavailable on this machine. The first call raises it for a worker, and
            whatever ``stockade.Sandbox.create`` raises.

    Example:
        >>> with Runtime(Caps(fuel=10_000)) as rt:
        ...     rt.run("total = 6 * 7"), rt.get("total")
        (None, 42)
    """

    def __init__(
        self,
        caps: Caps | None = None,
        *,
        trust: Trust = "trusted",
        engine: Literal["metered"] = "metered",
        in_process: bool = False,
        clock: float = FROZEN_CLOCK,
        seed: int = 0,
        output: int = MOST_OUTPUT,
        memory: int | str | None = None,
        pool: WorkerPool | None = None,
    ) -> None:
        if caps is not None and not isinstance(caps, Caps):
            raise PolicyError([FieldProblem("caps", repr(caps)[:80], "expected Caps(fuel=100_000, ...) or None")])
        self.caps = caps or Caps()
        require(trust, self.caps)
        if engine != "metered":
            raise PolicyError([FieldProblem("engine", repr(engine)[:80], "expected 'metered', the only engine so far")])
        if problem := _problem(trust, in_process, output, memory, pool):
            raise PolicyError([problem])
        self._options: dict[str, Any] = {
            "trust": trust,
            "engine": engine,
            "in_process": in_process,
            "clock": clock,
            "seed": seed,
            "output": output,
            "memory": memory,
            "pool": pool,
        }
        self._functions: dict[str, Callable[..., Any]] = {}
        self._lock = threading.Lock()
        self._why_dead = ""
        self._engine: Engine | WorkerEngine
        try:
            with loading:
                if in_process:
                    from stockade.embedded.engine import Engine

                    self._engine = Engine(self.caps, clock=clock, seed=seed, sink=Sink(output))
                else:
                    from stockade.embedded.worker.engine import WorkerEngine
                    from stockade.embedded.worker.process import Worker, sandbox_for_worker

                    start = pool._take if pool is not None else lambda: Worker(sandbox_for_worker(memory))
                    self._engine = WorkerEngine(self.caps, clock=clock, seed=seed, most_output=output, start=start)
        except RuntimeError as error:
            raise SetupError(str(error)) from None

    def __repr__(self) -> str:
        """Return one line."""
        return f"<Runtime: {'dead' if self._why_dead else 'alive'}; {self.usage.fuel} units of fuel used>"

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Let scripts call ``function`` as ``name``.

        Annotated parameters are checked strictly. A keyword-only parameter ``deadline`` receives the seconds that are
        left, or None. Of an exception the script sees nothing but ``HostError``; raise ``stockade.embedded.HostError``
        to send a text.
        """
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
            raise PolicyError([FieldProblem("name", repr(name)[:80], "scripts can only call a plain name")])
        with loading:
            from stockade.embedded.host_functions import HostFunction
        engine = self._engine
        try:
            engine.register(name, HostFunction(name, function, engine.remaining))
        except ValueError as error:
            raise PolicyError([FieldProblem("name", repr(name), str(error))]) from None
        self._functions[name] = function

    def register_object(self, name: str, target: object, *, allow: tuple[str, ...]) -> None:
        """Let scripts call the methods of ``target`` that ``allow`` lists, each as ``name_method``."""
        with loading:
            from stockade.embedded.host_functions import allowed_members
        for method, function in allowed_members(target, allow).items():
            self.register(f"{name}_{method}", function)

    def run(self, source: str, filename: str = "script.py") -> Any:
        """Run ``source`` and return the value of its last expression as data, or None if the last statement is another.

        Raises:
            ScriptError: the source is refused, or the script raised.
            ResourceExhausted: a cap ended the script. The runtime is dead afterwards.
            CrossingError: the value is not data.
            WorkerCrashed: the worker ended. The runtime is dead afterwards.
        """
        if not isinstance(source, str):
            raise TypeError(f"source: expected text, not {type(source).__name__}")
        with self._entered(filename):
            return self._engine.run(source, filename)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the script's function ``name`` with copies of the arguments, and return its value as data."""
        with self._entered():
            return self._engine.call(name, args, kwargs)

    def get(self, name: str) -> Any:
        """Return the value of a global name of the scripts as data."""
        with self._entered():
            return self._engine.get(name)

    def set(self, name: str, value: Any) -> None:
        """Bind a global name of the scripts to a copy of ``value``."""
        with self._entered():
            self._engine.set(name, value)

    def fresh(self) -> Runtime:
        """Return a new runtime with the same caps, options and host functions, and nothing of the scripts."""
        new = Runtime(self.caps, **self._options)
        for name, function in self._functions.items():
            new.register(name, function)
        return new

    @property
    def usage(self) -> Usage:
        """Return what the runtime has used."""
        return Usage(fuel=self._engine.fuel)

    @property
    def symbol_count(self) -> int:
        """Return how many distinct names the scripts have introduced."""
        return self._engine.symbol_count

    @property
    def stdout(self) -> str:
        """Return what the scripts printed, up to the bound ``output``."""
        return self._engine.sink.text

    @property
    def stdout_dropped(self) -> int:
        """Return how many characters of output were dropped."""
        return self._engine.sink.dropped

    @property
    def is_dead(self) -> bool:
        """Return whether a cap, a crash or ``close`` has ended this runtime."""
        return bool(self._why_dead)

    def close(self) -> None:
        """End the runtime and its worker. A call in another thread raises ``WorkerCrashed``."""
        self._why_dead = self._why_dead or "it was closed"
        self._engine.close()

    def __enter__(self) -> Runtime:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the runtime."""
        self.close()

    @contextmanager
    def _entered(self, filename: str = "") -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise RuntimeBusy(
                "the runtime runs a script already; host functions and other threads need a runtime of their own"
            )
        try:
            if self._why_dead:
                raise RuntimeDead(f"{self._why_dead}; use fresh()")
            yield
        except Exhausted as error:
            self._why_dead = "a cap has ended this runtime"
            self._engine.close()
            raise ResourceExhausted(*error.args) from None
        except Failed as error:
            class_name, message, line = error.args
            raise ScriptError(class_name, message, line, filename) from error.__cause__
        except Uncrossable as error:
            raise CrossingError(f"the value cannot cross the border: {error}") from None
        finally:
            if self._engine.lost and not self._why_dead:
                self._why_dead = f"the worker of this runtime is gone: {self._engine.lost}"
            self._lock.release()


def _problem(trust: str, in_process: bool, output: int, memory: object, pool: WorkerPool | None) -> FieldProblem | None:
    """Return why this configuration of a runtime is refused."""
    if in_process and trust == "semi-trusted":
        reason = (
            "only the weave stands between script and host in this process; a semi-trusted script needs a wall too: "
            "leave in_process out"
        )
        return FieldProblem("in_process", "True", reason)
    if in_process and (memory is not None or pool is not None):
        name = "memory" if memory is not None else "pool"
        return FieldProblem(name, repr(memory or pool), "belongs to the worker, and in_process=True has none")
    if memory is not None and pool is not None:
        return FieldProblem("memory", repr(memory), "the workers of a pool have the memory of WorkerPool(memory=...)")
    if not in_process and not 0 <= output <= MOST_OUTPUT_OF_WORKERS:
        return FieldProblem("output", repr(output), f"a worker keeps at most {MOST_OUTPUT_OF_WORKERS:,} characters")
    return None


class AsyncRuntime:
    """``Runtime`` for asyncio: each call runs in a thread, so it does not block the event loop."""

    def __init__(self, caps: Caps | None = None, **options: Any) -> None:
        self.sync = Runtime(caps, **options)

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Let scripts call ``function`` as ``name``; it runs in the thread of the call."""
        self.sync.register(name, function)

    def register_object(self, name: str, target: object, *, allow: tuple[str, ...]) -> None:
        """Let scripts call methods of ``target``, as ``Runtime.register_object`` does."""
        self.sync.register_object(name, target, allow=allow)

    async def run(self, source: str, filename: str = "script.py") -> Any:
        """Run ``source``, as ``Runtime.run`` does."""
        return await _in_thread(self.sync.run, source, filename)

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a function of the script, as ``Runtime.call`` does."""
        return await _in_thread(self.sync.call, name, *args, **kwargs)

    async def get(self, name: str) -> Any:
        """Return the value of a global name, as ``Runtime.get`` does."""
        return await _in_thread(self.sync.get, name)

    async def set(self, name: str, value: Any) -> None:
        """Bind a global name, as ``Runtime.set`` does."""
        await _in_thread(self.sync.set, name, value)

    async def close(self) -> None:
        """End the runtime, as ``Runtime.close`` does."""
        await _in_thread(self.sync.close)

    async def __aenter__(self) -> AsyncRuntime:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the runtime."""
        await self.close()

    def fresh(self) -> AsyncRuntime:
        """Return a new runtime with the same configuration."""
        new = object.__new__(AsyncRuntime)
        new.sync = self.sync.fresh()
        return new

    @property
    def caps(self) -> Caps:
        """Return the limits."""
        return self.sync.caps

    @property
    def usage(self) -> Usage:
        """Return what the runtime has used."""
        return self.sync.usage

    @property
    def symbol_count(self) -> int:
        """Return how many distinct names the scripts have introduced."""
        return self.sync.symbol_count

    @property
    def stdout(self) -> str:
        """Return what the scripts printed."""
        return self.sync.stdout

    @property
    def stdout_dropped(self) -> int:
        """Return how many characters of output were dropped."""
        return self.sync.stdout_dropped

    @property
    def is_dead(self) -> bool:
        """Return whether a cap, a crash or ``close`` has ended this runtime."""
        return self.sync.is_dead


async def _in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    import asyncio

    return await asyncio.to_thread(function, *args, **kwargs)
