"""``dataclasses``: written here, because CPython's makes methods from text, and those would escape the meter."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.attributes import CHECKED, GUARDED, holder
from stockade.embedded.boundary.classes import is_script_class
from stockade.embedded.boundary.facades import Fixed

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.namespace import Namespace

_MISSING = object()
_FIELDS = "$fields"
_OPTIONS = {
    "init": True,
    "repr": True,
    "eq": True,
    "order": False,
    "frozen": False,
    "kw_only": False,
    "unsafe_hash": False,
}


class Field(metaclass=Fixed):
    """A field of a dataclass. Its parts have names that a script cannot spell, so no script can store one.

    Functions of this module pass the name of a field to ``getattr`` and ``setattr``.
    """

    __slots__ = ("__compare__", "__default__", "__factory__", "__init_it__", "__kw_only__", "__label__", "__repr_it__")

    def __init__(
        self, default: Any = _MISSING, factory: Any = _MISSING, *, init: Any = True, show: Any = True,
        compare: Any = True, kw_only: Any = False,
    ) -> None:  # fmt: skip
        self.__default__, self.__factory__, self.__init_it__ = default, factory, bool(init)
        self.__repr_it__, self.__compare__, self.__kw_only__ = bool(show), bool(compare), bool(kw_only)
        self.__label__ = ""

    @property
    def name(self) -> str:
        """Return the name of the field."""
        return self.__label__


class FrozenInstanceError(AttributeError, metaclass=Fixed):
    """Raised by an assignment to a field of a frozen dataclass."""


def dataclasses(space: Namespace) -> dict[str, Any]:
    """Return the members of ``dataclasses``."""
    made = _Dataclasses(space)
    return {
        "dataclass": made.dataclass, "field": made.field, "fields": made.fields, "asdict": made.asdict,
        "astuple": made.astuple, "replace": made.replace, "is_dataclass": lambda value: _fields_of(value) is not None,
        "FrozenInstanceError": FrozenInstanceError,
    }  # fmt: skip


def _fields_of(value: Any) -> Any:
    kind = value if isinstance(value, type) else type(value)
    return getattr(kind, _FIELDS, None) if is_script_class(kind) else None


class _Dataclasses:
    """The functions of ``dataclasses`` for one runtime."""

    def __init__(self, space: Namespace) -> None:
        self._space = space

    def field(
        self, *, default: Any = _MISSING, default_factory: Any = _MISSING, init: Any = True, repr: Any = True,
        compare: Any = True, kw_only: Any = False, hash: Any = None, metadata: Any = None,
    ) -> Field:  # fmt: skip
        """Perform ``field``."""
        if hash is not None or metadata is not None:
            raise TypeError("hash and metadata of a field are not available in scripts")
        return Field(default, default_factory, init=init, show=repr, compare=compare, kw_only=kw_only)

    def dataclass(self, kind: Any = None, /, **options: Any) -> Any:
        """Perform ``dataclass``."""
        if options.keys() - _OPTIONS.keys():
            raise TypeError(f"dataclass takes {', '.join(_OPTIONS)} in scripts")
        chosen = _OPTIONS | options
        return (lambda given: self._made(given, chosen)) if kind is None else self._made(kind, chosen)

    def _made(self, kind: Any, options: dict[str, Any]) -> Any:
        if not is_script_class(kind):
            raise TypeError("dataclass needs a class of the script")
        found = self._collected(kind, options)
        self._space.meter.charge(20 + 4 * len(found))
        setattr(kind, _FIELDS, tuple(found.values()))
        own = kind.__dict__
        methods = self._methods(kind, list(found.values()), options)
        for name, function in methods.items():
            if (
                name not in own
                or name in ("__setattr__", "__delattr__")
                or (name == "__hash__" and own[name] is None and "__eq__" not in own)
            ):
                setattr(kind, name, function)
        safe = tuple(n for n, f in found.items() if f.__init_it__ and not f.__kw_only__)
        if "__match_args__" not in own and not set(safe) & (CHECKED | GUARDED):
            setattr(kind, "__match_args__", safe)  # noqa: B010
        return kind

    def _collected(self, kind: Any, options: dict[str, Any]) -> dict[str, Field]:
        found: dict[str, Field] = {}
        for base in reversed(kind.__mro__[1:]):
            for each in _fields_of(base) or ():
                found[each.name] = each
        seen_default = False
        for name, annotation in _annotations(kind).items():
            if annotation.startswith(("ClassVar", "typing.ClassVar")):
                continue
            default = kind.__dict__.get(name, _MISSING)
            one = default if isinstance(default, Field) else Field(default)
            if options["kw_only"]:
                one.__kw_only__ = True
            one.__label__ = name
            if type(one.__default__) in (list, dict, set):
                raise ValueError(
                    f"mutable default {type(one.__default__).__name__} for field {name} is not allowed: "
                    "use default_factory"
                )
            if isinstance(default, Field):
                if one.__default__ is _MISSING:
                    delattr(kind, name)
                else:
                    setattr(kind, name, one.__default__)
            found[name] = one
        for name, one in found.items():
            if one.__init_it__ and not one.__kw_only__:
                optional = one.__default__ is not _MISSING or one.__factory__ is not _MISSING
                if seen_default and not optional:
                    raise TypeError(f"non-default argument {name!r} follows default argument")
                seen_default = seen_default or optional
        return found

    def _methods(self, kind: Any, fields: list[Field], options: dict[str, Any]) -> dict[str, Callable[..., Any]]:
        compared = [each.name for each in fields if each.__compare__]
        methods: dict[str, Any] = {}
        if options["init"]:
            methods["__init__"] = self._init(kind, fields, is_frozen=bool(options["frozen"]))
        if options["repr"]:
            methods["__repr__"] = self._repr([each.name for each in fields if each.__repr_it__])
        if options["eq"]:
            methods["__eq__"] = self._comparison("$eq", compared)
            if "__eq__" not in kind.__dict__ or kind.__dict__.get("__hash__") is None:
                methods["__hash__"] = self._hash(compared) if options["frozen"] or options["unsafe_hash"] else None
        if options["order"]:
            methods |= {f"__{name}__": self._comparison(f"${name}", compared) for name in ("lt", "le", "gt", "ge")}
        if options["frozen"]:
            methods["__setattr__"], methods["__delattr__"] = _frozen("assign to"), _frozen("delete")
        return methods

    def _init(self, kind: Any, fields: list[Field], *, is_frozen: bool) -> Callable[..., None]:
        tick, charge = self._space.meter.tick, self._space.meter.charge
        place = object.__setattr__ if is_frozen else setattr
        units = len(fields) // prices.NODES if len(fields) > prices.STATEMENT else 0
        stores_args = any(each.name == "args" for each in fields)
        positional = [each for each in fields if each.__init_it__ and not each.__kw_only__]
        named = {each.name for each in fields if each.__init_it__}

        def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
            tick()
            if units:
                charge(units)
            if not issubclass(type(self), kind):  # it stores what no statement of a script could
                raise TypeError(f"{kind.__name__}.__init__() needs an instance of {kind.__name__!r}")
            if stores_args:
                holder(self)
            if len(args) > len(positional):
                raise TypeError(
                    f"{kind.__name__}.__init__() takes {len(positional) + 1} positional arguments "
                    f"but {len(args) + 1} were given"
                )
            given = {each.name: value for each, value in zip(positional, args, strict=False)}
            for name, value in kwargs.items():
                if name not in named:
                    raise TypeError(f"{kind.__name__}.__init__() got an unexpected keyword argument {name!r}")
                if name in given:
                    raise TypeError(f"{kind.__name__}.__init__() got multiple values for argument {name!r}")
                given[name] = value
            for each in fields:
                value = given.get(each.name, _MISSING)
                if value is _MISSING:
                    value = _default(kind, each)
                if value is not _MISSING:
                    place(self, each.name, value)
            if hasattr(self, "__post_init__"):
                self.__post_init__()

        return init

    def _repr(self, names: list[str]) -> Callable[[Any], str]:
        rendering = self._space.rendering

        def represent(self: Any) -> str:
            return rendering.recursive(self, lambda: f"{type(self).__qualname__}({_pairs(self)})")

        def _pairs(value: Any) -> str:
            return rendering.cat(
                *(f"{', ' if i else ''}{n}={rendering.repr_of(getattr(value, n))}" for i, n in enumerate(names))
            )

        return represent

    def _comparison(self, guard: str, names: list[str]) -> Callable[[Any, Any], Any]:
        perform, tick = self._space.names[guard], self._space.meter.tick

        def compare(self: Any, other: Any) -> Any:
            tick()
            if type(other) is not type(self):
                return NotImplemented
            return perform(tuple(getattr(self, name) for name in names), tuple(getattr(other, name) for name in names))

        return compare

    def _hash(self, names: list[str]) -> Callable[[Any], int]:
        key = self._space.scales.key
        return lambda value: hash(key(tuple(getattr(value, name) for name in names)))

    def fields(self, value: Any) -> Any:
        """Perform ``fields``."""
        found = _fields_of(value)
        if found is None:
            raise TypeError("must be called with a dataclass type or instance")
        return found

    def _of_instance(self, value: Any, function: str) -> Any:
        if isinstance(value, type) or _fields_of(value) is None:
            raise TypeError(f"{function}() should be called on dataclass instances")
        return _fields_of(value)

    def asdict(self, value: Any) -> dict[str, Any]:
        """Perform ``asdict``."""
        found = self._of_instance(value, "asdict")
        return {each.name: self._inner(getattr(value, each.name), self.asdict) for each in found}

    def astuple(self, value: Any) -> tuple[Any, ...]:
        """Perform ``astuple``."""
        found = self._of_instance(value, "astuple")
        return tuple(self._inner(getattr(value, each.name), self.astuple) for each in found)

    def _inner(self, value: Any, convert: Callable[[Any], Any]) -> Any:
        self._space.meter.charge(1)
        if _fields_of(value) is not None and not isinstance(value, type):
            return convert(value)
        if type(value) in (list, tuple):
            return type(value)(self._inner(each, convert) for each in value)
        if type(value) is dict:
            return {self._inner(key, convert): self._inner(each, convert) for key, each in value.items()}
        return value

    def replace(self, value: Any, /, **changes: Any) -> Any:
        """Perform ``replace``."""
        for each in self._of_instance(value, "replace"):
            if each.__init_it__ and each.name not in changes:
                changes[each.name] = getattr(value, each.name)
        return type(value)(**changes)


def _annotations(kind: Any) -> dict[str, str]:
    found = inspect.get_annotations(kind)
    return {name: text for name, text in found.items() if type(text) is str}


def _default(kind: Any, field: Field) -> Any:
    if field.__factory__ is not _MISSING:
        return field.__factory__()
    if field.__default__ is not _MISSING:
        return field.__default__
    if field.__init_it__:
        raise TypeError(f"{kind.__name__}.__init__() missing 1 required argument: {field.name!r}")
    return _MISSING


def _frozen(verb: str) -> Callable[..., None]:
    def refuse(_self: Any, name: str, *_value: Any) -> None:
        raise FrozenInstanceError(f"cannot {verb} field {name!r}")

    return refuse
