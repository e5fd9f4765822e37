"""Which names a script can spell. Attribute names are decided here, once, so most access costs nothing later."""

from __future__ import annotations

from stockade.embedded.boundary.attributes import CHECKED, GUARDED, KEYED, UNWRITABLE
from stockade.embedded.weave.source import SourceError

DEFINABLE = frozenset({
    "__init__", "__new__", "__post_init__", "__repr__", "__str__", "__format__", "__bytes__", "__hash__", "__bool__",
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__len__", "__iter__", "__next__", "__reversed__",
    "__contains__", "__getitem__", "__setitem__", "__delitem__", "__missing__", "__call__", "__enter__", "__exit__",
    "__add__", "__radd__", "__iadd__", "__sub__", "__rsub__", "__isub__", "__mul__", "__rmul__", "__imul__",
    "__truediv__", "__rtruediv__", "__itruediv__", "__floordiv__", "__rfloordiv__", "__ifloordiv__", "__mod__",
    "__rmod__", "__imod__", "__divmod__", "__rdivmod__", "__pow__", "__rpow__", "__ipow__", "__matmul__",
    "__rmatmul__", "__imatmul__", "__lshift__", "__rlshift__", "__ilshift__", "__rshift__", "__rrshift__",
    "__irshift__", "__and__", "__rand__", "__iand__", "__or__", "__ror__", "__ior__", "__xor__", "__rxor__",
    "__ixor__", "__neg__", "__pos__", "__abs__", "__invert__", "__int__", "__float__", "__index__", "__round__",
    "__floor__", "__ceil__", "__trunc__", "__get__", "__set__", "__set_name__", "__getattr__", "__init_subclass__",
    "__class_getitem__", "__length_hint__",
})  # fmt: skip
"""Special methods that a class of the script can define. ``__del__``, pickling and attribute hooks are left out."""

SUPER = frozenset({
    "__init__", "__new__", "__post_init__", "__enter__", "__exit__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__",
    "__ge__", "__len__", "__iter__", "__next__", "__contains__", "__getitem__", "__setitem__", "__call__", "__add__",
    "__sub__", "__mul__", "__init_subclass__", "__repr__", "__str__", "__hash__",
})  # fmt: skip
READABLE = frozenset({"__name__", "__class__", "__doc__"})
NAMES = frozenset({"__name__", "__debug__"})
READ_FROM_CLASSES = frozenset({
    "_fields", "_field_defaults", "_name_", "_value_", "_member_map_", "_member_names_", "_ignore_", "_order_",
})  # fmt: skip
ASSIGNED_IN_CLASS = frozenset({"__slots__", "__match_args__", "__hash__"})


def is_special(name: str) -> bool:
    """Return whether a name begins and ends with two underscores."""
    return name.startswith("__") and name.endswith("__")


def check_host_name(name: str, what: str) -> None:
    """Raise ``ValueError`` for a name that the host cannot give to a function or value of its own."""
    if not name.isidentifier() or is_special(name) or name == "super":
        raise ValueError(f"{name!r} is not a name for {what}")


def check_name(name: str, line: int) -> None:
    """Refuse a special name as a variable."""
    if is_special(name) and name not in NAMES:
        raise SourceError(f"name {name!r} is not available in scripts", line, "NameError")


def check_bound(name: str, line: int) -> None:
    """Refuse a name that a statement binds."""
    if is_special(name) or name == "super":
        raise SourceError(f"name {name!r} cannot be assigned in scripts", line, "NameError")


def check_class_name(name: str, line: int) -> None:
    """Refuse a name that the body of a class binds, where guards would read it from the class."""
    if name in READ_FROM_CLASSES:
        raise SourceError(f"name {name!r} cannot be assigned in a class of a script", line, "AttributeError")


def check_stored_attribute(name: str, line: int) -> None:
    """Refuse an attribute that a statement sets or deletes."""
    if is_special(name) or name in UNWRITABLE:
        raise SourceError(f"attribute {name!r} cannot be set in scripts", line, "AttributeError")


def check_pattern_attribute(name: str, line: int) -> None:
    """Refuse an attribute that a class pattern reads."""
    if is_special(name) or name in CHECKED or name in GUARDED or name in KEYED:
        raise SourceError(f"attribute {name!r} is not available in patterns", line, "AttributeError")
