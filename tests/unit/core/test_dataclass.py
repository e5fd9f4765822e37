import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

import pytest

from stockade.core.dataclass import dataclass as quick


class Point:
    """A point."""

    kind: ClassVar[str] = "point"
    x: int
    y: float = 0.0
    seen: list[int] = field(default_factory=list, hash=False)
    note: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "y", self.y * 2)


class Alone:
    value: float


class Named:
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


class Equal:
    name: str

    def __eq__(self, other: object) -> bool:
        return True


class Empty:
    pass


CASES: list[tuple[type, list[dict[str, Any]]]] = [
    (Point, [{"x": 1}, {"x": 1, "y": 2.0, "seen": [3], "note": "n"}, {"x": 1, "note": "other"}, {"x": 2}]),
    (Alone, [{"value": 1.0}, {"value": float("nan")}]),
    (Named, [{"name": "a"}, {"name": "b"}]),
    (Equal, [{"name": "a"}, {"name": "b"}]),
    (Empty, [{}]),
]


def made(kind: type, by: Any) -> Any:
    declared = {name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__")}
    return by(frozen=True)(type(kind.__name__, (), declared))


Point.__qualname__ = Point.__name__ = "QuickPoint"  # so that pickle finds it
QuickPoint = made(Point, quick)


@pytest.mark.parametrize(("kind", "values"), CASES)
def test_quick_class_is_like_the_librarys(kind: type, values: list[dict[str, Any]]) -> None:
    ours, theirs = made(kind, quick), made(kind, dataclass)
    assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
    assert inspect.signature(ours).parameters.keys() == inspect.signature(theirs).parameters.keys()
    assert ours.__init__.__annotations__ == theirs.__init__.__annotations__
    assert ours.__match_args__ == theirs.__match_args__
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)
    for one in values:
        mine, other = ours(**one), theirs(**one)
        assert repr(mine) == repr(other)
        assert asdict(mine) == asdict(other) or "nan" in repr(mine)
        assert hash(mine) == hash(other) or "nan" in repr(mine)
        for more in values:
            assert (mine == ours(**more)) == (other == theirs(**more))
        assert mine != other or kind in (Named, Equal)
        for name in (*one, "foreign"):
            with pytest.raises(FrozenInstanceError, match="cannot assign to field"):
                setattr(mine, name, 1)
            with pytest.raises(FrozenInstanceError, match="cannot delete field"):
                delattr(mine, name)


def test_quick_class_has_defaults_of_its_own_for_each_instance() -> None:
    assert QuickPoint(1).seen == []
    assert QuickPoint(1).seen is not QuickPoint(1).seen
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        QuickPoint()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        QuickPoint(1, z=2)


def test_quick_class_can_be_copied() -> None:
    point = QuickPoint(1, 2.0, [3])
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert other == point
    assert replace(point, x=5, y=1.0) == QuickPoint(5, 1.0, [3])


def test_quick_class_can_be_a_base() -> None:
    class Plain(QuickPoint):  # type: ignore[misc, valid-type]
        pass

    plain = Plain(1)
    plain.extra = 2
    del plain.extra
    with pytest.raises(FrozenInstanceError):
        plain.x = 2
    for by in (quick, dataclass):

        @by(frozen=True)
        class More(QuickPoint):  # type: ignore[misc, valid-type]
            more: int = 3

        assert (More(1).more, More(1) == More(1)) == (3, True)
        with pytest.raises(FrozenInstanceError):
            More(1).more = 4


def test_other_dataclasses_are_the_librarys() -> None:
    @quick
    class Open:
        x: int = 0

    @quick(frozen=True, order=True)
    class Ordered:
        x: int = 0

    Open().x = 1
    assert Ordered(1) < Ordered(2)


@pytest.mark.parametrize("more", [field(init=False, default=0), field(kw_only=True)])
def test_quick_class_refuses_a_field_that_init_cannot_take(more: Any) -> None:
    with pytest.raises(TypeError, match="field like this"):
        quick(frozen=True)(type("Odd", (), {"__annotations__": {"x": int}, "x": more}))
