"""Each hostile script ends by the cap that was meant, or is refused; each published escape is refused."""

import pytest

from stockade.embedded import Caps, ResourceExhausted, Runtime
from stockade.embedded.boundary.meter import Meter
from tests.unit.embedded.child import Child
from tests.unit.embedded.escapes import ESCAPES
from tests.unit.embedded.hostile import EXHAUSTION, GROWING_CHAIN, NESTS, PARSING, PRICED


@pytest.fixture(scope="module")
def child():
    process = Child()
    yield process
    process.close()


@pytest.mark.parametrize(("source", "endings"), [pytest.param(*rest, id=name) for name, *rest in EXHAUSTION + PARSING])
def test_hostile_script_ends_by_a_meant_cap(source, endings, child):
    answer = child.run(source)
    assert answer["how"] in endings, answer
    assert answer.get("class_name") != "MemoryError", answer


@pytest.mark.parametrize(("source", "least"), [pytest.param(*rest, id=name) for name, *rest in PRICED])
def test_work_of_few_operations_is_priced(source, least, child):
    answer = child.run(source)
    assert answer["how"] in ("answered", "crossing"), answer
    assert answer["fuel"] >= least


def test_heap_objects_exceed_their_cap_by_a_tenth(monkeypatch):
    found = []
    record = Meter._record

    def noted(self, cap, figure):
        found.append(self._held())
        record(self, cap, figure)

    monkeypatch.setattr(Meter, "_record", noted)
    for source in ALLOCATING:
        found.clear()
        with pytest.raises(ResourceExhausted, match="heap_objects"):
            Runtime(Caps(fuel=10**7, heap_objects=10_000), in_process=True).run(source)
        assert 10_000 < found[0] <= 11_000, source


ALLOCATING = [
    "x = []\nwhile True: x.append([])",
    "x = []\nwhile True: x += [[], [], [], [], [], [], [], []]",
    "x = []\nfor i in range(10**6): x.append(({i: []}, [i], {i}))",
    "[[[], [], [], []] for i in range(10**6)]",
    "class A:\n  def __init__(self): self.a, self.b = [], {}\nx = [A() for i in range(10**6)]",
    "x = []\ndef f(): x.append(lambda: [x])\nwhile True: f()",
    "list(map(lambda i: [[i], {}], range(10**6)))",
]


NEST = """
import itertools, functools, contextlib, heapq
from collections import deque, defaultdict, Counter
def f(*given): return 1
g = ()
try:
    for _ in range(60000): g = MADE
except ValueError: pass
try: next(iter(g))
except Exception: pass
g = None
"""


@pytest.mark.parametrize("made", NESTS.values(), ids=NESTS)
def test_deep_nest_does_not_end_the_process(made, child):
    answer = child.run(NEST.replace("MADE", made), fuel=10**9, heap_objects=None, frames=None)
    assert answer["how"] != "hung or crashed", answer
    assert child.run("1")["how"] == "answered"  # the runtime before it was freed


def test_chains_that_grow_while_they_run_do_not_end_the_process(child):
    answer = child.run(GROWING_CHAIN, fuel=10**9, heap_objects=None, frames=None)
    assert answer["how"] in ("answered", "frames"), answer


@pytest.mark.parametrize("source", [pytest.param(source, id=name) for name, source in ESCAPES])
def test_published_escape_is_refused(source, child):
    answer = child.run(source)
    assert answer["how"] == "refused", answer
    assert answer["class_name"] != "MemoryError", answer
