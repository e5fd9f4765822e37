"""Each hostile script ends by the cap that was meant, or is refused; each published escape is refused."""

import pytest

from tests.unit.embedded.child import Child
from tests.unit.embedded.escapes import ESCAPES
from tests.unit.embedded.hostile import EXHAUSTION, GROWING_CHAIN, NESTS, PARSING


@pytest.fixture(scope="module")
def child():
    process = Child()
    yield process
    process.close()


@pytest.mark.parametrize(("source", "endings"), [pytest.param(*rest, id=name) for name, *rest in EXHAUSTION + PARSING])
def test_hostile_script_ends_by_a_meant_cap(source, endings, child):
    answer = child.run(source)
    assert answer["how"] in endings, answer


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
