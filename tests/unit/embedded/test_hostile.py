"""Each hostile script ends by the cap that was meant, or is refused; each published escape is refused."""

import pytest

from tests.unit.embedded.child import Child
from tests.unit.embedded.escapes import ESCAPES
from tests.unit.embedded.hostile import EXHAUSTION, PARSING


@pytest.fixture(scope="module")
def child():
    process = Child()
    yield process
    process.close()


@pytest.mark.parametrize(("source", "endings"), [pytest.param(*rest, id=name) for name, *rest in EXHAUSTION + PARSING])
def test_hostile_script_ends_by_a_meant_cap(source, endings, child):
    answer = child.run(source)
    assert answer["how"] in endings, answer


@pytest.mark.parametrize("source", [pytest.param(source, id=name) for name, source in ESCAPES])
def test_published_escape_is_refused(source, child):
    answer = child.run(source)
    assert answer["how"] == "refused", answer
