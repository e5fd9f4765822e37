import pytest

from stockade.core.launch import Groups, Launch, Watch
from stockade.core.record import Record


class Point(Record):
    x: int
    y: int = 0


def test_records_compare_print_and_refuse():
    assert Point(x=1) == Point(x=1, y=0) != Point(x=2)
    assert hash(Point(x=1)) == hash(Point(x=1))
    assert repr(Point(x=1)) == "Point(x=1, y=0)"
    with pytest.raises(TypeError, match="lacks x"):
        Point()
    with pytest.raises(TypeError, match="no z"):
        Point(x=1, z=2)
    with pytest.raises(AttributeError, match="frozen"):
        Point(x=1).x = 2


def test_a_launch_goes_over_the_wire_and_comes_back():
    launch = Launch(
        argv=("true",),
        environment={"A": "1"},
        steps=(("chdir", "/"),),
        groups=Groups(memory=1),
        watch=Watch(cpu_seconds=2),
    )
    fields = launch.as_wire() | {"steps": launch.steps}
    assert Launch.from_wire(dict(fields)) == launch
    with pytest.raises(TypeError):
        Launch.from_wire(fields | {"surprise": 1})
    other = Launch.from_wire({"steps": (), "watch": {"cpu_seconds": 3}}, launch)
    assert other == launch.adding(steps=(), watch=Watch(cpu_seconds=3))
    with pytest.raises(TypeError):
        Launch.from_wire({"surprise": 1}, launch)
