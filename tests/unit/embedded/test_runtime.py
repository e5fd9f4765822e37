"""A runtime as its host sees it: values, errors, caps, host functions and the border between the two sides."""

import asyncio
import datetime
import inspect
import subprocess
import sys
import threading
import time
import zoneinfo

import pytest

import stockade
from stockade.core.errors import Exhausted, PolicyError
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
)


def runtime(**caps):
    return Runtime(Caps(**caps), in_process=True)


def test_run_returns_last_expression():
    rt = runtime()
    assert rt.run("total = 1 + 2\ntotal * 2") == 6
    assert rt.run("total += 1") is None
    assert rt.get("total") == 4


def test_names_persist_between_runs():
    rt = runtime()
    rt.run("def discount(n):\n    return n * rate")
    rt.set("rate", 5)
    assert rt.call("discount", 3) == 15


def test_missing_name_is_a_script_error():
    with pytest.raises(ScriptError, match="NameError"):
        runtime().call("nothing")


def test_guard_name_is_not_readable():
    with pytest.raises(ScriptError, match="NameError"):
        runtime().get("$tick")


def test_script_error_names_class_message_and_line():
    with pytest.raises(ScriptError) as caught:
        runtime().run("x = 1\ny = [1][5]", filename="rules.py")
    error = caught.value
    assert (error.class_name, error.message, error.line, error.filename) == (
        "IndexError",
        "list index out of range",
        2,
        "rules.py",
    )
    assert str(error) == "IndexError: list index out of range (rules.py, line 2)"


def test_redacted_error_keeps_no_name():
    with pytest.raises(ScriptError) as caught:
        runtime().run("class SecretPlan(Exception): pass\nraise SecretPlan('secret')", filename="secret.py")
    error = caught.value.redacted()
    assert "ecret" not in str(error)
    assert (error.class_name, error.line) == ("Exception", 2)


@pytest.mark.parametrize(
    ("caps", "source", "cap"),
    [
        ({"fuel": 1000}, "while True: pass", "fuel"),
        ({"heap_objects": 1000}, "x = []\nwhile True: x.append([])", "heap_objects"),
        ({"frames": 50}, "def f(): return f()\nf()", "frames"),
        ({"deadline": 0.05}, "while True: pass", "deadline"),
        ({"symbols": 10}, "; ".join(f"name{i} = 1" for i in range(20)), "symbols"),
        ({"value_bytes": 1000}, "'a' * 2000", "value_bytes"),
    ],
)
def test_each_cap_works_alone(caps, source, cap):
    rt = runtime(**caps)
    with pytest.raises(ResourceExhausted) as caught:
        rt.run("pass\n" + source)
    assert (caught.value.cap, caught.value.figure) == (cap, caps[cap])
    assert rt.is_dead
    with pytest.raises(RuntimeDead):
        rt.run("1")
    assert rt.fresh().run("1 + 1") == 2


def test_exhaustion_names_the_line():
    with pytest.raises(ResourceExhausted) as caught:
        runtime(fuel=1000).run("x = 1\n\nwhile True:\n    x = 1")
    assert caught.value.line in (3, 4)


def test_exhaustion_is_in_one_hierarchy():
    assert issubclass(ResourceExhausted, Exhausted)
    assert issubclass(stockade.ResourceExhausted, Exhausted)


def test_fuel_is_exact():
    rt = runtime(fuel=500)
    with pytest.raises(ResourceExhausted):
        rt.run("while True: pass")
    assert rt.usage.fuel == 500


def test_fuel_is_the_same_each_time():
    source = "d = {}\nfor i in range(500):\n    d[i % 7] = d.get(i % 7, '') + str(i)\nsorted(d.items())"
    used = set()
    for _ in range(3):
        rt = runtime(fuel=10**6)
        rt.run(source)
        used.add(rt.usage.fuel)
    assert len(used) == 1


@pytest.mark.timing
def test_deadline_overrun_is_small():
    rt = runtime(deadline=0.2)
    start = time.monotonic()
    with pytest.raises(ResourceExhausted):
        rt.run("s = 'a' * 10**6\nwhile True: s.upper(); s.upper()")
    assert time.monotonic() - start < 1.0


def test_recursion_limit_is_restored():
    before = sys.getrecursionlimit()
    with pytest.raises(ResourceExhausted):
        runtime(frames=50).run("def f(): f()\nf()")
    assert sys.getrecursionlimit() == before


def test_exhaustion_at_the_recursion_limit_is_never_lost():
    source = "def f(n):\n    for i in range(7):\n        pass\n    try:\n        return f(n + 1)\n    except Exception:\n        return 1\nf(0)"
    with pytest.raises(ResourceExhausted) as caught:
        runtime(frames=60).run(source)
    assert caught.value.cap == "frames"


def test_host_function_is_typed_at_the_border():
    rt = runtime()

    def price(name: str, count: int = 1) -> float:
        return {"a": 1.5}[name] * count

    rt.register("price", price)
    assert rt.run("price('a', count=2)") == 3.0
    with pytest.raises(ScriptError, match="argument 'name'"):
        rt.run("price(5)")
    with pytest.raises(ScriptError, match="HostError: host function 'price' failed"):
        rt.run("price()")


def test_host_function_failure_shows_no_detail():
    rt = runtime()

    def broken():
        raise ValueError("the password is hunter2")

    rt.register("broken", broken)
    source = "try:\n    broken()\nexcept Exception as e:\n    text = f'{e!r} {e} {e.args}'\ntext"
    assert "hunter2" not in rt.run(source)
    with pytest.raises(ScriptError) as caught:
        rt.run("broken()")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" in str(caught.value.__cause__)


def test_host_error_carries_its_text():
    rt = runtime()

    def broken():
        raise HostError("no such item")

    rt.register("broken", broken)
    assert (
        rt.run("try:\n    broken()\nexcept HostError as e:\n    r = str(e)\nr")
        == "host function 'broken' failed: no such item"
    )


def test_host_function_is_told_its_deadline():
    told = []
    rt = runtime(deadline=5.0)
    rt.register("ask", lambda *, deadline: told.append(deadline))
    rt.run("ask()")
    assert 4.0 < told[0] <= 5.0
    with pytest.raises(ScriptError, match="deadline"):
        rt.run("ask(deadline=1)")


def test_host_function_past_the_deadline_ends_the_script():
    rt = runtime(deadline=0.05)
    done = []
    rt.register("slow", lambda: time.sleep(0.1))
    rt.register("after", lambda: done.append(1))
    with pytest.raises(ResourceExhausted):
        rt.run("try:\n    slow()\nexcept BaseException:\n    pass\nafter()")
    assert not done


def test_no_host_function_runs_after_a_limit():
    rt = runtime(fuel=1000)
    done = []
    rt.register("after", lambda: done.append(1))
    with pytest.raises(ResourceExhausted):
        rt.run("try:\n    while True: pass\nfinally:\n    after()")
    assert not done


CONTEXT = "import functools\nclass C:\n  def __enter__(self): pass\n  {}\nwith C(): interrupt()"


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    interrupt()\nexcept BaseException:\n    pass",
        CONTEXT.format("def __exit__(self, *_): return True"),
        CONTEXT.format("def __exit__(self, *_): yield"),
        CONTEXT.format("@lambda f: functools.partial\n  def __exit__(self, *_): pass"),
        CONTEXT.format("@lambda f: lambda *_: True\n  def __exit__(self, *_): pass"),
        CONTEXT.format("@staticmethod\n  def __exit__(*_): return True"),
    ],
)
def test_interrupt_of_the_host_passes_every_handler(source):
    rt = runtime()

    def interrupt():
        raise KeyboardInterrupt

    rt.register("interrupt", interrupt)
    with pytest.raises(KeyboardInterrupt):
        rt.run(source)


def test_context_of_another_function_works_as_in_cpython():
    entered = "class C:\n  def __enter__(self): return 5\n  @lambda f: lambda self, kind, *_: kind is KeyError\n  def __exit__(self, *_): pass\n"
    assert runtime().run(entered + "with C() as n: raise KeyError\nn") == 5
    with pytest.raises(ScriptError, match="ValueError"):
        runtime().run(entered + "with C(): raise ValueError")
    with pytest.raises(ScriptError, match="context manager protocol"):
        runtime().run("with 1: pass")


def test_runtime_refuses_to_be_entered_twice():
    rt = runtime()
    rt.register("again", lambda: rt.run("1"))
    with pytest.raises(ScriptError) as caught:
        rt.run("again()")
    assert isinstance(caught.value.__cause__, RuntimeBusy)


def test_values_cross_as_copies():
    rt = runtime()
    given = {"a": [1, (2, {3}), b"x", None, 1.5]}
    rt.set("given", given)
    rt.run("given['a'].append(9)")
    assert given == {"a": [1, (2, {3}), b"x", None, 1.5]}
    assert rt.get("given") == {"a": [1, (2, {3}), b"x", None, 1.5, 9]}


def test_time_zone_of_the_host_does_not_enter_a_script():
    """A zone of any other type brings the methods of a host object along."""
    rt, utc = runtime(), datetime.UTC
    rt.set("moment", datetime.datetime(2026, 1, 1, tzinfo=utc))
    for zone in (zoneinfo.ZoneInfo("UTC"), type("Zone", (datetime.tzinfo,), {})()):
        for value in (datetime.datetime(2026, 1, 1, tzinfo=zone), [datetime.time(1, tzinfo=zone)]):
            with pytest.raises(CrossingError, match="time zone of type"):
                rt.set("moment", value)
    assert rt.get("moment").tzinfo is utc


@pytest.mark.parametrize(
    "source",
    ["lambda: 1", "object()", "class A: pass\nA()", "len", "x = []\nx.append(x)\nx", "(i for i in [1])", "int"],
)
def test_only_data_leaves_a_script(source):
    with pytest.raises(CrossingError):
        runtime().run(source)


def test_registered_objects_offer_listed_methods_only():
    class Store:
        def get(self, key: str) -> int:
            return 1

        def wipe(self) -> None:
            raise AssertionError

    rt = runtime()
    rt.register_object("store", Store(), allow=("get",))
    assert rt.run("store_get('a')") == 1
    with pytest.raises(ScriptError, match="NameError"):
        rt.run("store_wipe()")


def test_output_is_bounded():
    rt = Runtime(Caps(fuel=10**6), in_process=True, output=10)
    rt.run("print('abc', end='')\nprint('0123456789')")
    assert (rt.stdout, rt.stdout_dropped) == ("abc0123456", 4)


def test_clock_and_random_are_policy():
    source = "import datetime, random\n[datetime.datetime.now().isoformat(), random.random()]"
    assert runtime().run(source) == runtime().run(source)
    assert Runtime(in_process=True, clock=0.0, seed=1).run(source)[0] == "1970-01-01T00:00:00"


def test_symbol_count_grows_by_new_names():
    rt = runtime()
    rt.run("alpha = 1")
    first = rt.symbol_count
    rt.run("alpha = 2")
    rt.run("beta = alpha")
    assert rt.symbol_count == first + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trust": "untrusted", "caps": Caps.semi_trusted()}, "stockade.run"),
        ({"trust": "semi-trusted", "caps": Caps(fuel=1)}, "needs every cap"),
        ({"trust": "friend"}, "expected 'trusted'"),
    ],
)
def test_trust_needs_its_configuration(options, message):
    with pytest.raises(stockade.PolicyError, match=message):
        Runtime(options.pop("caps", None), in_process=True, **options)


def test_engine_has_one_value_and_others_are_refused_by_name():
    assert Runtime(engine="metered", in_process=True).fresh().run("1 + 1") == 2
    with pytest.raises(stockade.PolicyError, match="engine = 'wasm': expected 'metered'"):
        Runtime(engine="wasm", in_process=True)


def test_wrong_caps_are_refused_together():
    with pytest.raises(stockade.PolicyError) as caught:
        Caps(fuel=0, frames="many", deadline=float("nan"))
    assert [problem.field for problem in caught.value.problems] == ["caps.fuel", "caps.frames", "caps.deadline"]


def test_unknown_cap_names_the_one_that_was_meant():
    with pytest.raises(TypeError, match=r"no field 'fule'; did you mean 'fuel'\?"):
        Caps(fule=1)
    with pytest.raises(TypeError, match=r"'timeout'; did you mean 'deadline'\?"):
        Caps(timeout=1)


def test_threads_do_not_share_a_runtime():
    rt = runtime()
    entered, leave = threading.Event(), threading.Event()
    rt.register("wait", lambda: [entered.set(), leave.wait(5)][0])
    thread = threading.Thread(target=rt.run, args=("wait()",))
    thread.start()
    entered.wait(5)
    with pytest.raises(RuntimeBusy):
        rt.run("1")
    leave.set()
    thread.join()


def test_async_runtime_leaves_the_loop_free():
    async def both():
        rt = AsyncRuntime(Caps(deadline=5.0), in_process=True)
        rt.register("pause", lambda: time.sleep(0.2))
        ticks = []

        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        value = await rt.run("pause()\n6 * 7")
        ticking.cancel()
        return value, len(ticks)

    value, ticks = asyncio.run(both())
    assert value == 42
    assert ticks > 3


def test_errors_survive_pickling():
    import pickle

    for error in (ResourceExhausted("fuel", 5, 3), ScriptError("ValueError", "m", 2, "f.py")):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_page_prints_the_price_list():
    from pathlib import Path

    from stockade.embedded import PRICE_LIST, PRICE_VERSION

    page = (Path(__file__).parents[3] / "docs" / "embedded.md").read_text()
    assert f"The list has version {PRICE_VERSION}." in page
    assert not [row for row in PRICE_LIST if f"| {row[0]} | {row[1]} |" not in page]


def test_async_runtime_has_every_public_name_of_runtime():
    def public(rt):
        return {name for name in dir(rt) if not name.startswith("_")}

    rt = runtime()
    twin = AsyncRuntime(Caps(fuel=1000), in_process=True)
    assert public(twin) - public(rt) == {"sync"}
    assert public(rt) <= public(twin)
    for name in public(rt):
        given, own = (getattr(type(each), name, None) for each in (rt, twin))
        assert isinstance(given, property) == isinstance(own, property) or name == "caps"
        if callable(given):
            assert inspect.signature(given).parameters == inspect.signature(own).parameters, name
            assert inspect.iscoroutinefunction(own) == (name in ("run", "call", "get", "set", "close")), name
    twin.register_object("box", [3], allow=("count",))
    assert asyncio.run(twin.run("print('x')\nbox_count(3)")) == 1
    assert (twin.stdout, twin.stdout_dropped, twin.is_dead, twin.symbol_count, twin.caps) == (
        "x\n",
        0,
        False,
        2,
        Caps(fuel=1000),
    )
    assert twin.usage.fuel > 0


def test_cause_is_error_of_host_function():
    rt = runtime()
    rt.register("fetch", lambda key: {"a": 1}[key])
    for source, is_passed_on in {
        "fetch('b')": True,
        "try: fetch('b')\nexcept HostError as e: raise ValueError('x') from e": True,
        "try: fetch('b')\nexcept HostError: raise ValueError('x')": True,
        "try: fetch('b')\nexcept HostError: raise ValueError('x') from None": False,
        "try: fetch('b')\nexcept HostError: pass\n1 / 0": False,
        "def other():\n  try: fetch('b')\n  except HostError as e: return e\nfirst = other()\nother()\nraise first": True,
    }.items():
        with pytest.raises(ScriptError) as caught:
            rt.run(source)
        assert isinstance(caught.value.__cause__, KeyError) == is_passed_on, source


def test_frames_above_what_the_stack_holds_are_refused():
    Caps(frames=2000)
    with pytest.raises(PolicyError, match=r"caps\.frames.*at most 2,000"):
        Caps(frames=2001)


def test_large_integer_of_the_host_is_priced():
    rt = runtime(fuel=100_000)
    rt.set("x", 7**100_000)
    rt.set("y", 5**50_000)
    with pytest.raises(ResourceExhausted, match="fuel"):
        rt.run("while True: x % y")


def test_message_of_a_refusal_shows_no_address():
    with pytest.raises(ScriptError) as caught:
        runtime().run("import itertools\nitertools.tee([], object())")
    assert "0x" not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "raise BaseException('x')",
        "k = []\ndef g():\n  try: yield\n  except BaseException as e: k.append(e); raise\nx = g()\nnext(x)\nx.close()\nraise k[0]",
    ],
)
def test_base_exception_reaches_host_as_script_error(source):
    with pytest.raises(ScriptError):
        runtime().run(source)


def test_script_catches_its_own_base_exception():
    assert runtime().run("try: raise BaseException('x')\nexcept BaseException as e: r = str(e)\nr") == "x"


def test_interrupt_in_host_function_passes_through_script():
    def interrupted():
        raise KeyboardInterrupt

    rt = runtime()
    rt.register("stop", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rt.run("try: stop()\nexcept BaseException: pass")


def test_import_loads_neither_the_engine_nor_the_sandbox():
    code = "import sys, stockade; early = 'stockade.embedded' in sys.modules; import stockade.embedded as e; "
    code += "heavy = ['pydantic', 'stockade.api', 'stockade.embedded.engine', 'stockade.embedded.worker']; "
    code += "print(early, [name for name in heavy if name in sys.modules]); e.Runtime(in_process=True).run('1'); "
    code += "print([name for name in heavy if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "False []\n['stockade.embedded.engine']\n"
