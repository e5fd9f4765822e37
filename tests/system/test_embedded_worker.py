"""A runtime in its worker behaves as one in this process: values, errors, fuel, output, host functions. What differs is the end of a worker."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from tests.unit.embedded.escapes import ESCAPES

from stockade.core.errors import PolicyError, StockadeError
from stockade.embedded import (
    AsyncRuntime,
    Caps,
    CrossingError,
    HostError,
    ResourceExhausted,
    Runtime,
    RuntimeBusy,
    RuntimeDead,
    ScriptError,
    WorkerCrashed,
    WorkerPool,
)

pytestmark = pytest.mark.needs("native")
WIDE = Caps(fuel=10**7, heap_objects=10**6, frames=200, deadline=60.0, symbols=10**4, value_bytes=10**7)


@pytest.fixture(scope="module")
def worker() -> Iterator[Runtime]:
    with Runtime(WIDE, trust="semi-trusted") as made:
        made.register("echo", lambda *args, **kwargs: [args, kwargs])
        yield made


@pytest.fixture(scope="module")
def local() -> Runtime:
    made = Runtime(WIDE, in_process=True)
    made.register("echo", lambda *args, **kwargs: [args, kwargs])
    return made


def ended(call: Callable[[], Any]) -> tuple[str, Any]:
    """How a call ended: its value with all types, or the error as data."""
    try:
        return "value", repr(call())
    except StockadeError as error:
        return type(error).__name__, error.as_json()


def both(local: Runtime, worker: Runtime, call: Callable[[Runtime], Any]) -> tuple[str, Any]:
    """Make one call of both runtimes, and return how it ended. Everything that a host sees must be the same.

    But a value that the host hands in and that cannot cross costs no fuel in a worker, which never sees it.
    """
    seen = []
    for rt in (local, worker):
        before = rt.usage.fuel, rt.symbol_count, len(rt.stdout)
        how = ended(lambda rt=rt: call(rt))
        fuel = 0 if how[0] == "CrossingError" else rt.usage.fuel - before[0]
        seen.append((how, fuel, rt.symbol_count - before[1], rt.stdout[before[2] :]))
    assert seen[0] == seen[1]
    return seen[1][0]


PROGRAMS = [
    "print('hello', end='')\nsum(range(1000))",
    "class A:\n  def __init__(self): self.v = [1, {2: (3, None)}]\nA().v",
    "import datetime as d\n[d.datetime.now(), d.date(2020, 2, 3), d.timedelta(1, 2, 3), d.time(1, 2), d.timezone.utc]",
    "from decimal import Decimal\nfrom fractions import Fraction\n[Decimal('1.50'), Fraction(1, 3), 2**300, -1, 1.5, 2j]",
    "import random, json\n[random.random(), json.dumps({'a': [1, True]}), b'x', {1, 2}, frozenset([3]), '\\ud800']",
    "from collections import Counter, deque, OrderedDict\n[Counter('aab'), deque([1]), OrderedDict(a=1)]",
    "echo(1, [2, (3,)], key={'a': b'x'})",
    "def f(n): return n * 2\n",
    "1 / 0",
    "raise KeyError('x')",
    "x = 1\ny = [1][5]",
    "def broken(:",
    "import os",
    "echo(lambda: 1)",
    "x = []\nx.append(x)\nx",
    "class A: pass\nA()",
    "raise BaseException('x')",
]


def test_scripts_end_alike(local: Runtime, worker: Runtime) -> None:
    for source in PROGRAMS:
        both(local, worker, lambda rt, source=source: rt.run(source, "rules.py"))


def test_escapes_are_refused_alike(local: Runtime, worker: Runtime) -> None:
    for name, source in ESCAPES:
        assert both(local, worker, lambda rt, source=source: rt.run(source))[0] == "ScriptError", name


def test_values_cross_alike(local: Runtime, worker: Runtime) -> None:
    both(local, worker, lambda rt: rt.run("def mirror(value, key): return [value, key]"))
    nest: list[Any] = []
    for _ in range(200):
        nest = [nest]
    for value in (
        None,
        [1, (2, {3: {4}})],
        Counter("aab"),
        Decimal("1.5"),
        Fraction(1, 3),
        "\ud800",
        2**5000,
        nest,
        print,
    ):
        how = both(local, worker, lambda rt, value=value: rt.set("given", value))
        assert how[0] == ("CrossingError" if value in (nest, print) else "value"), value
        both(local, worker, lambda rt: rt.get("given"))
        both(local, worker, lambda rt, value=value: rt.call("mirror", value, key=value))
    both(local, worker, lambda rt: rt.get("nothing"))
    both(local, worker, lambda rt: rt.get("$tick"))
    both(local, worker, lambda rt: rt.call("f", 1, 2, 3))


@pytest.mark.parametrize(
    ("caps", "source", "cap"),
    [
        ({"fuel": 1000}, "while True: pass", "fuel"),
        ({"frames": 50}, "def f(): return f()\nf()", "frames"),
        ({"symbols": 10}, "; ".join(f"name{i} = 1" for i in range(20)), "symbols"),
        ({"value_bytes": 1000}, "'a' * 2000", "value_bytes"),
        ({"heap_objects": 1000}, "x = []\nwhile True: x.append([])", "heap_objects"),
        ({"deadline": 0.3}, "while True: pass", "deadline"),
    ],
)
def test_each_cap_ends_the_worker(caps: dict[str, Any], source: str, cap: str) -> None:
    with Runtime(Caps(**caps)) as rt:
        rt.register("after", lambda: pytest.fail("a host function ran after a limit"))
        with pytest.raises(ResourceExhausted) as caught:
            rt.run(
                f"try:\n  exec\nexcept NameError: pass\ntry:\n  {source.replace(chr(10), chr(10) + '  ')}\nfinally: after()"
            )
        assert (caught.value.cap, caught.value.figure) == (cap, caps[cap])
        assert rt.is_dead
        with pytest.raises(RuntimeDead):
            rt.run("1")
        if cap == "fuel":
            assert rt.usage.fuel == 1000
            with rt.fresh() as fresh:
                assert fresh.run("after\n1 + 1") == 2


def test_host_function_fails_alike() -> None:
    def broken() -> None:
        raise ValueError("the password is hunter2")

    def known() -> None:
        raise HostError("no such item")

    def typed(name: str) -> object:
        return object()

    for options in ({"in_process": True}, {}):
        with Runtime(Caps(deadline=60.0), **options) as rt:
            for function in (broken, known, typed):
                rt.register(function.__name__, function)
            rt.register("left", lambda *, deadline: deadline)
            rt.register("again", lambda rt=rt: rt.run("1"))
            assert rt.run("try: broken()\nexcept Exception as e: text = f'{e!r} {e.args}'\ntext") == (
                "HostError(\"host function 'broken' failed\") (\"host function 'broken' failed\",)"
            )
            with pytest.raises(ScriptError, match="'broken' failed") as caught:
                rt.run("broken()")
            assert "hunter2" in str(caught.value.__cause__)
            with pytest.raises(ScriptError, match="no such item"):
                rt.run("known()")
            with pytest.raises(ScriptError, match="argument 'name'"):
                rt.run("typed(5)")
            with pytest.raises(ScriptError, match="returned what cannot enter the script"):
                rt.run("typed('a')")
            with pytest.raises(ScriptError) as caught:
                rt.run("again()")
            assert isinstance(caught.value.__cause__, RuntimeBusy)
            assert 0 < rt.run("left()") <= 60.0


def test_function_registered_later_is_there(worker: Runtime) -> None:
    worker.run("1")
    worker.register("later", lambda: "here")
    assert worker.run("later()") == "here"


def test_late_host_function_ends_the_script() -> None:
    done: list[int] = []
    with Runtime(Caps(deadline=2.0)) as rt:
        rt.register("slow", lambda: time.sleep(2.1))
        rt.register("after", lambda: done.append(1))
        with pytest.raises(ResourceExhausted, match="deadline"):
            rt.run("try:\n    slow()\nexcept BaseException:\n    pass\nafter()")
    assert not done


def test_output_is_bounded_over_calls() -> None:
    with Runtime(output=10) as rt:
        rt.run("print('abc', end='')")
        rt.run("print('0123456789')")
        assert (rt.stdout, rt.stdout_dropped) == ("abc0123456", 4)


def test_worker_without_memory_is_an_error_that_says_so() -> None:
    """Without a memory control group, each process has a limit of its own, and Python says so to the script."""
    with Runtime(memory="48MiB") as rt:
        with pytest.raises((WorkerCrashed, ScriptError), match=r"[Mm]emory") as caught:
            rt.run("x = []\nwhile True: x.append(str(len(x)) * 100_000)")
        if caught.type is WorkerCrashed:
            assert rt.is_dead
            with pytest.raises(RuntimeDead, match="gone"):
                rt.run("1")
        with rt.fresh() as fresh:
            assert fresh.run("1 + 1") == 2


def test_interrupt_of_the_host_ends_the_worker() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with Runtime() as rt:
        rt.register("interrupt", interrupt)
        with pytest.raises(KeyboardInterrupt):
            rt.run("try:\n    interrupt()\nexcept BaseException:\n    pass")
        assert rt.is_dead


def test_closed_runtime_is_dead() -> None:
    rt = Runtime()
    assert rt.run("1") == 1
    started = threading.Event()
    rt.register("started", started.set)
    ends: list[tuple[str, Any]] = []
    thread = threading.Thread(target=lambda: ends.append(ended(lambda: rt.run("started()\nwhile True: pass"))))
    thread.start()
    assert started.wait(30)
    rt.close()
    thread.join(30)
    assert [how for how, _ in ends] == ["WorkerCrashed"]
    with pytest.raises(RuntimeDead, match="closed"):
        rt.run("1")


def test_forked_process_leaves_the_worker_alone() -> None:
    with Runtime() as rt:
        assert rt.run("x = 1\nx") == 1
        child = os.fork()
        if child == 0:
            is_refused = False
            try:
                rt.run("x = 2")
            except RuntimeDead as error:
                is_refused = "forked" in str(error)
            finally:
                rt.close()
                os._exit(0 if is_refused else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert rt.run("x") == 1


def test_pool_gives_each_runtime_a_worker_of_its_own() -> None:
    with WorkerPool(size=2, memory="64MiB") as pool:
        pool.fill()
        with Runtime(WIDE, pool=pool) as one:
            other = one.fresh()
            assert [rt.run("x = 1\nx") for rt in (one, other)] == [1, 1]
            with one.fresh() as third:
                assert ended(lambda: third.get("x"))[0] == "ScriptError"
            with pytest.raises(ResourceExhausted, match="fuel"):
                other.run("while True: pass")
            assert one.run("x += 1\nx") == 2
    assert one.is_dead
    assert pool.waiting == 0


def test_pool_and_memory_are_refused_where_they_have_no_effect() -> None:
    with WorkerPool() as pool:
        for options, field in (
            ({"in_process": True, "memory": "1GiB"}, "memory"),
            ({"in_process": True, "pool": pool}, "pool"),
            ({"memory": "1GiB", "pool": pool}, "memory"),
            ({"output": 10**9}, "output"),
        ):
            with pytest.raises(PolicyError) as caught:
                Runtime(**options)  # type: ignore[arg-type]
            assert caught.value.problems[0].field == field


def test_async_runtime_uses_a_worker() -> None:
    async def both_at_once() -> list[Any]:
        async with AsyncRuntime(WIDE, trust="semi-trusted") as one, AsyncRuntime() as other:
            one.register("double", lambda n: 2 * n)
            return await asyncio.gather(one.run("double(21)"), other.run("1 + 1"))

    assert asyncio.run(both_at_once()) == [42, 2]


def test_value_too_large_for_a_message_is_an_error_of_its_own() -> None:
    with Runtime(memory="1GiB") as rt:
        with pytest.raises(CrossingError, match="more than"):
            rt.run("['a' * 30_000_000 + str(i) for i in range(3)]")
        assert rt.run("1") == 1


def test_dropped_runtime_ends_its_worker_with_a_warning() -> None:
    runtime = Runtime(WIDE)
    runtime.run("1")
    sandbox = runtime._engine._worker._sandbox  # type: ignore[union-attr]
    with pytest.warns(ResourceWarning, match=r"a Runtime was dropped without close\(\)") as caught:
        del runtime
        gc.collect()
    assert sandbox.closed
    assert len(caught) == 1
