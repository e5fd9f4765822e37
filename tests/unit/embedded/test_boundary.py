"""The boundary is complete: every attribute of every type that a script can reach is vetted, and nothing shared can be changed."""

import sys
from types import FunctionType

import pytest

from stockade.embedded import Caps, Runtime
from stockade.embedded.boundary import attributes
from stockade.embedded.boundary.classes import is_script_class
from stockade.embedded.boundary.facades import Fixed, real
from stockade.embedded.engine import Engine
from stockade.embedded.sink import Sink
from stockade.embedded.weave.source import SourceError
from stockade.embedded.weave.weaver import weave
from tests.unit.embedded.reach import public, reached


@pytest.fixture(scope="module")
def reach():
    return reached()


def vetted(kind, name):
    if name in attributes.GUARDED or name in attributes.CHECKED:
        return True
    if issubclass(kind, BaseException):
        return name in attributes.FREE_OF_ERRORS
    return name in attributes.FREE.get(kind, ())


def test_every_reachable_attribute_is_vetted(reach):
    values = reach[1] + reach[2]
    kinds = {type(value) for value in values} | {value for value in values if isinstance(value, type)}
    unvetted = {
        f"{kind.__module__}.{kind.__name__}.{name}"
        for kind in kinds
        if not is_script_class(kind)
        and not isinstance(kind, Fixed)
        and not (isinstance(kind, type) and issubclass(kind, Fixed))
        for name in public(kind)
        if not vetted(kind, name)
    }
    assert not unvetted - HARMLESS, (
        f"add these to boundary/attributes.py, after a look at what each does: {sorted(unvetted - HARMLESS)}"
    )


HARMLESS = {
    # types whose few attributes are state of one object, and whose values reach nothing
    "builtins.traceback.tb_lasti", "builtins.traceback.tb_lineno",
    "enum.auto.value", *(f"enum.{kind}.{name}" for kind in ("Enum", "Flag") for name in ("name", "value")), "enum.auto._value_", "datetime.IsoCalendarDate.year", "datetime.IsoCalendarDate.week", "datetime.IsoCalendarDate.weekday",
}  # fmt: skip


def is_reached_by_type(space, value):
    return space.classes.class_of(value) is type(value)


def test_no_shared_object_can_be_changed(reach):
    space, values, made = reach
    changed = []
    for value in [*values, *(type(each) for each in made if is_reached_by_type(space, each))]:
        if is_script_class(value) or is_script_class(type(value)) or isinstance(value, FunctionType):
            continue
        if (
            isinstance(value, type)
            and not isinstance(value, Fixed)
            and real(value) is value
            and not value.__flags__ & (1 << 8)
        ):
            changed.append(repr(value))
            continue
        try:
            value.set_by_a_test = 1
        except (AttributeError, TypeError):
            continue
        del value.set_by_a_test
        if not isinstance(value, BaseException):
            changed.append(repr(value))
    assert not changed
    assert space.meter.hit is None


STORED = {
    # data of one object that the script itself made
    "enum.auto.value", "stockade.embedded.boundary.owned.defaultdict.default_factory",
}  # fmt: skip


def is_storable(space, value, name):
    """Return whether a statement of a script can store the attribute ``name`` of ``value``."""
    space.names |= {"target": value, "stored": getattr(value, name, None)}
    for source in (f"target.{name} = stored", f"setattr(target, '{name}', stored)"):
        try:
            exec(weave(source, "storing").code, space.names)
        except (AttributeError, TypeError, ValueError, SourceError):
            continue
        return True
    return False


def test_no_attribute_of_a_host_object_can_be_stored(reach):
    space, values, made = reach
    stored = {
        f"{type(value).__module__}.{type(value).__name__}.{name}"
        for value in [*values, *made]
        if not isinstance(value, type | BaseException | FunctionType) and not is_script_class(type(value))
        for name in public(type(value))
        if is_storable(space, value, name)
    }
    assert not stored - STORED, f"a script can store these attributes: {sorted(stored - STORED)}"


def test_charge_of_a_negative_price_is_refused():
    meter = Runtime(Caps(fuel=100), in_process=True)._engine.meter
    with pytest.raises(ValueError, match="negative"):
        meter.charge(-1)
    assert meter.spent == 0


def test_functions_are_not_shared_between_runtimes():
    first, second = reached()[1], reached()[1]  # both stay alive, so that no id is used twice
    functions = {id(value) for value in first if isinstance(value, FunctionType)}
    assert functions
    assert not functions & {id(value) for value in second if isinstance(value, FunctionType)}


def test_unknown_python_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 99, 0, "final", 0))
    with pytest.raises(RuntimeError, match="vetted for CPython"):
        Engine(Caps(), clock=0, seed=0, sink=Sink(0))


def test_guard_names_are_unspeakable():
    space = Runtime(in_process=True)._engine.space
    assert all(name.startswith(("$", "__")) for name in space.names)
