"""The vetted table of attributes. An attribute of a type that scripts can reach is guarded, checked, or listed as free.

- *Guarded* names are methods that can be large or slow. The weave sends their calls to a guard, for every receiver.
- *Checked* names reveal or change too much on some type. The weave sends each access to ``Attributes.read``.
- *Free* names are read as CPython reads them. ``FREE`` lists them by type, and a test walks every type on every
supported
  Python: an attribute in none of the three tables fails it. ``PYTHONS`` are the versions that were walked.
"""

from __future__ import annotations

import datetime
from collections import Counter, OrderedDict
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import FunctionType, GeneratorType, MethodType
from typing import Any

from stockade.embedded.boundary.facades import Fixed
from stockade.embedded.boundary.owned import defaultdict, deque

PYTHONS = frozenset({(3, 11), (3, 12), (3, 13), (3, 14)})

TEXT = frozenset({
    "capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha", "isascii", "isdecimal",
    "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "lower",
    "lstrip", "partition", "removeprefix", "removesuffix", "rfind", "rindex", "rpartition", "rstrip", "startswith",
    "strip", "swapcase", "title", "upper", "split", "rsplit", "splitlines", "hex",
})  # fmt: skip
"""Methods of text and bytes whose work is linear in the text."""
SIZED = frozenset({
    "center", "ljust", "rjust", "zfill", "expandtabs", "join", "replace", "translate", "format", "format_map",
    "encode", "decode", "maketrans", "to_bytes", "from_bytes", "fromhex",
})  # fmt: skip
LISTS = frozenset({"copy", "extend", "extendleft", "insert", "pop", "remove", "reverse", "rotate", "sort"})
SETS = frozenset({
    "difference", "difference_update", "intersection", "intersection_update", "isdisjoint", "issubset", "issuperset",
    "symmetric_difference", "symmetric_difference_update", "union", "update",
})  # fmt: skip
RECORDS = frozenset({"_make", "_asdict", "_replace"})
"""Methods of named tuples. Each takes an iterable, or a record of the script that could be one."""
DICTS = frozenset({"fromkeys", "elements", "most_common", "subtract", "total", *RECORDS})
OTHER = frozenset({"strftime", "strptime", "as_integer_ratio", "timestamp", "expand", "limit_denominator"})
GUARDED = TEXT | SIZED | LISTS | SETS | DICTS | OTHER
KEYED = frozenset({"get", "setdefault", "add", "discard", "remove", "pop", "move_to_end"})
"""Methods whose first argument is hashed. The weave pays for the hash and leaves the call as it is."""

_ENUM = frozenset({
    "_member_map_", "_member_names_", "_member_type_", "_new_member_", "_unhashable_values_", "_unhashable_values_map_",
    "_use_args_", "_value2member_map_", "_value_repr_", "_generate_next_value_", "_missing_", "_hashable_values_",
    "_flag_mask_", "_boundary_", "_all_bits_", "_inverted_", "_singles_mask_", "_sort_order_", "_add_alias_",
    "_add_value_alias_", "_iter_member_", "_iter_member_by_def_", "_iter_member_by_value_", "_numeric_repr_",
    "_ignore_", "_order_", "_create_pseudo_member_", "_get_value", "_add_member_", "_proto_member", "_convert_",
    "_create_", "_get_mixins_", "_find_data_type_", "_find_data_repr_", "_find_new_", "_check_for_existing_members_",
})  # fmt: skip
CHECKED = _ENUM | {
    "mro", "mapping", "obj", "with_traceback", "re", "string", "regs", "as_tuple", "timetuple", "utctimetuple", "now",
    "today", "utcnow", "fromtimestamp", "utcfromtimestamp", "astimezone", "from_decimal", "from_float",
    "from_number",
    "_operator_fallbacks", "_from_coprime_ints", "_from_pair", "_abc_impl", "_add", "_sub", "_mul", "_div", "_divmod",
    "_floordiv", "_mod", "_richcmp", "_numerator", "_denominator", "_keep_positive", "_format_float_style",
    "_format_general", "gi_code", "gi_frame", "gi_running", "gi_suspended", "gi_yieldfrom", "gi_state", "cr_code",
    "cr_frame", "cr_await", "cr_running", "cr_origin", "cr_suspended", "ag_code", "ag_frame", "ag_await", "ag_running",
    "f_back", "f_builtins", "f_code", "f_globals", "f_locals", "f_trace", "tb_frame", "tb_next", "func_globals",
    "print_file_and_line", "fromutc", "register", "_hashcode", "_abc_registry",
}  # fmt: skip

_MAPPINGS: tuple[dict[Any, Any], ...] = ({}, OrderedDict())
VIEWS: tuple[Any, ...] = tuple(
    type(view) for mapping in _MAPPINGS for view in (mapping.keys(), mapping.values(), mapping.items())
)
"""Types of the views of a dictionary: keys, values and items, and the same of an ``OrderedDict``."""
_DATE = (
    "ctime day fold hour isocalendar isoformat isoweekday max microsecond min minute month resolution second "
    "toordinal weekday year"
)
_ZONED = "combine date dst fromisocalendar fromisoformat fromordinal time timetz tzinfo tzname utc utcoffset"
_DICT = "clear get items keys popitem setdefault values default_factory move_to_end"
_NUMBER = "bit_count bit_length conjugate denominator imag is_integer numerator real"
_ERROR = (
    "add_note args characters_written encoding end end_lineno end_offset errno filename filename2 lineno msg name "
    "name_from object offset path reason start strerror text value"
)
_DECIMAL = (
    "adjusted canonical compare compare_signal compare_total compare_total_mag conjugate copy_abs copy_negate "
    "copy_sign exp fma imag is_canonical is_finite is_infinite is_nan is_normal is_qnan is_signed "
    "is_snan is_subnormal is_zero ln log10 logb logical_and logical_invert logical_or logical_xor max max_mag min "
    "min_mag next_minus next_plus next_toward normalize number_class quantize radix real remainder_near rotate "
    "same_quantum scaleb shift sqrt to_eng_string to_integral to_integral_exact to_integral_value"
)
FREE: dict[Any, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        str: "",
        bytes: "",
        list: "append clear",
        tuple: "",
        dict: _DICT,
        defaultdict: _DICT,
        OrderedDict: _DICT,
        Counter: _DICT,
        set: "add clear discard",
        frozenset: "",
        deque: "append appendleft clear maxlen popleft",
        int: _NUMBER,
        bool: _NUMBER,
        float: _NUMBER,
        complex: _NUMBER,
        type(None): "",
        type(...): "",
        type(NotImplemented): "",
        range: "start step stop",
        slice: "indices start step stop",
        **dict.fromkeys(VIEWS, ""),
        datetime.date: f"{_DATE} {_ZONED}",
        datetime.datetime: f"{_DATE} {_ZONED}",
        datetime.time: f"{_DATE} {_ZONED}",
        datetime.timedelta: "days max microseconds min resolution seconds total_seconds",
        datetime.timezone: f"{_DATE} {_ZONED}",
        Decimal: _DECIMAL,
        Fraction: _NUMBER,
        FunctionType: "",
        MethodType: "",
        GeneratorType: "close send throw",
        property: "deleter fdel fget fset getter setter",
        partial: "args func keywords",
        type: "",
        object: "",
    }.items()
}
"""Free attributes by type. Exceptions share ``FREE_OF_ERRORS``."""
FREE_OF_ERRORS = frozenset(_ERROR.split())


_ACCESSORS = ("clear", "items", "keys", "popitem", "values")
OWNED = GUARDED | KEYED | frozenset(_ACCESSORS)
"""Names that a script can store only in objects of its own classes: guards call the methods of built-in types."""


class Attributes:
    """Reads the attributes whose names are guarded or checked, and the built-in functions that take a name."""

    def __init__(self, bound: Any, symbol: Any) -> None:
        self._bound, self._symbol = bound, symbol

    def table(self) -> dict[str, Any]:
        """Return each guard by its name in woven code."""
        return {"$attr": self.read, "$bound": self._bound, "$owner": _owner, "$holder": holder}

    def read(self, value: Any, name: str) -> Any:
        """Return a checked attribute: only of the script's own classes and of facades."""
        kind = type(value)
        if name == "mro":
            refused = isinstance(value, type)
        elif _is_facade(value) or _is_facade(kind):
            refused = False
        elif isinstance(value, BaseException):
            refused = name in ("obj", "with_traceback")
        else:
            refused = (kind in FREE and kind is not type) or name in _UNSAFE or _is_foreign(kind)
        if refused:
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r} in scripts")
        return getattr(value, name)

    def named(self, value: Any, name: Any) -> Any:
        """Return the attribute that a script names at run time."""
        self.check(name)
        if name in GUARDED or name in KEYED:
            return self._bound(value, name)
        return self.read(value, name) if name in CHECKED else getattr(value, name)

    def check(self, name: Any) -> None:
        """Refuse a name that the source could not have spelled as an attribute."""
        if type(name) is not str:
            raise TypeError("attribute name must be string")
        if (name.startswith("__") and name.endswith("__") and name != "__name__") or "$" in name:
            raise AttributeError(f"attribute {name!r} is not available in scripts")
        self._symbol(name)


_UNSAFE = frozenset(name for name in CHECKED if name.startswith(("gi_", "cr_", "ag_", "f_", "tb_", "_"))) | {
    "func_globals"
}


UNWRITABLE = _UNSAFE | {"_fields", "_field_defaults", "_name_", "_value_", "_replace", "_asdict"}
"""Names that no script can store: CPython's own code and the guards read them from classes and tracebacks."""


def _owner(value: Any) -> Any:
    """Return an object in which a script stores an attribute of a name in ``OWNED``, or refuse it."""
    kind = type(value)
    if kind in FREE and kind not in (FunctionType, type):
        raise AttributeError(f"{kind.__name__!r} object has no attribute that a script can set")
    return value


def holder(value: Any) -> Any:
    """Return an object in which a script stores ``args``. An exception would take all elements of an iterable."""
    if isinstance(value, BaseException):
        raise AttributeError("attribute 'args' of an exception cannot be set in scripts")
    return value


def _is_facade(value: Any) -> bool:
    """Return whether ``value`` is a class whose members were written down for scripts."""
    return isinstance(value, Fixed)


def _is_foreign(kind: type) -> bool:
    """Return whether ``kind`` is neither a class of the script nor the type of one."""
    return kind.__dict__.get("__module__") != "__main__" and not issubclass(kind, type)
