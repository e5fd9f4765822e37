"""``re``: patterns whose work is bounded before they run. No engine of the standard library can be interrupted."""

from __future__ import annotations

import re as real
import sys
from re import _parser as parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.facades import Fixed
from stockade.embedded.boundary.linear import PatternRefused, Shape, shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.namespace import Namespace

_FLAGS = ("IGNORECASE", "I", "MULTILINE", "M", "DOTALL", "S", "VERBOSE", "X", "ASCII", "A")
_ALLOWED = real.IGNORECASE | real.MULTILINE | real.DOTALL | real.VERBOSE | real.ASCII
MOST_KEPT = 64
MOST_TEMPLATE = 1000
_DEPTH = 5


def re(space: Namespace) -> dict[str, Any]:
    """Return the members of ``re``."""
    patterns = _Patterns(space)
    members: dict[str, Any] = {name: int(getattr(real, name)) for name in _FLAGS}
    for name in ("match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn"):
        members[name] = patterns.function(name)

    def escape(text: Any) -> str:
        if type(text) is not str:
            raise TypeError("escape takes text in scripts")
        space.operators.sized(2 * len(text), text)
        return str(real.escape(text))

    return members | {"compile": patterns.compile, "escape": escape, "error": ValueError}


class _Patterns:
    """The compiled patterns of one runtime."""

    def __init__(self, space: Namespace) -> None:
        self._space = space
        self._kept: dict[tuple[str, int], Pattern] = {}

    def compile(self, pattern: Any, flags: Any = 0) -> Pattern:
        """Return a pattern, or refuse it."""
        if isinstance(pattern, Pattern):
            return pattern
        if type(pattern) is not str or type(flags) is not int:
            raise TypeError("a pattern is text in scripts")
        found = self._kept.get((pattern, flags))
        if found is None:
            self._space.meter.charge(prices.PATTERN * (10 + len(pattern)))
            if flags & ~int(_ALLOWED):
                raise ValueError("this flag is not available in scripts")
            try:
                found = _below(_DEPTH, lambda: self._made(pattern, flags))
            except (real.error, PatternRefused, OverflowError) as error:
                raise ValueError(f"pattern {pattern[:60]!r}: {error}") from None
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[pattern, flags] = found
        return found

    def _made(self, pattern: str, flags: int) -> Pattern:
        bounds = shape(pattern, flags)
        return Pattern(self._space, real.compile(pattern, flags), bounds)

    def function(self, name: str) -> Callable[..., Any]:
        """Return the function of the module that compiles and then calls the method ``name``."""
        is_replacing = name in ("sub", "subn")

        def perform(pattern: Any, *args: Any, flags: Any = 0, **options: Any) -> Any:
            fixed = 3 if is_replacing or name == "split" else 1
            if len(args) > fixed:
                flags, args = args[fixed], args[:fixed]
            return getattr(self.compile(pattern, flags), name)(*args, **options)

        return perform


class Pattern(metaclass=Fixed):
    """A pattern. The compiled pattern behind it has a name that a script cannot spell."""

    __slots__ = ("__pattern__", "__shape__", "__space__", "__wrap__")

    def __init__(self, space: Namespace, pattern: Any, bounds: Shape) -> None:
        self.__space__, self.__pattern__, self.__shape__ = space, pattern, bounds
        self.__wrap__: Callable[[Any], Any] = lambda found: Match(space, found)

    @property
    def pattern(self) -> Any:
        """Return the text of the pattern."""
        return self.__pattern__.pattern

    @property
    def groups(self) -> Any:
        """Return the number of groups."""
        return self.__pattern__.groups

    def match(self, text: Any) -> Any:
        """Perform ``match``."""
        return _once(self, "match", text)

    def fullmatch(self, text: Any) -> Any:
        """Perform ``fullmatch``."""
        return _once(self, "fullmatch", text)

    def search(self, text: Any) -> Any:
        """Perform ``search``."""
        return _once(self, "search", text)

    def findall(self, text: Any) -> Any:
        """Perform ``findall``."""
        _pay(self, text, is_anchored=False)
        self.__space__.meter.charge(1 + len(text) * (1 + self.__pattern__.groups) // prices.NODES)
        return self.__pattern__.findall(text)

    def finditer(self, text: Any) -> Any:
        """Perform ``finditer``."""
        _pay(self, text, is_anchored=False)
        return map(self.__wrap__, self.__pattern__.finditer(text))

    def split(self, text: Any, maxsplit: Any = 0) -> Any:
        """Perform ``split``."""
        _pay(self, text, is_anchored=False)
        self.__space__.meter.charge(1 + len(text) * (1 + self.__pattern__.groups) // prices.NODES)
        return self.__pattern__.split(text, maxsplit)

    def sub(self, repl: Any, text: Any, count: Any = 0) -> str:
        """Perform ``sub``."""
        return _replaced(self, repl, text, count)[0]

    def subn(self, repl: Any, text: Any, count: Any = 0) -> tuple[str, int]:
        """Perform ``subn``."""
        return _replaced(self, repl, text, count)


class Match(metaclass=Fixed):
    """A match. CPython's own object, whose methods copy groups without a price, has a name that no script can spell."""

    __slots__ = ("__match__", "__space__")

    def __init__(self, space: Namespace, match: Any) -> None:
        self.__space__, self.__match__ = space, match

    @property
    def lastindex(self) -> Any:
        """Return the number of the last group that matched."""
        return self.__match__.lastindex

    @property
    def lastgroup(self) -> Any:
        """Return the name of the last group that matched."""
        return self.__match__.lastgroup

    @property
    def pos(self) -> Any:
        """Return where the search began."""
        return self.__match__.pos

    @property
    def endpos(self) -> Any:
        """Return where the search had to end."""
        return self.__match__.endpos

    def start(self, group: Any = 0, /) -> Any:
        """Perform ``start``."""
        return self.__match__.start(group)

    def end(self, group: Any = 0, /) -> Any:
        """Perform ``end``."""
        return self.__match__.end(group)

    def span(self, group: Any = 0, /) -> Any:
        """Perform ``span``."""
        return self.__match__.span(group)

    def group(self, *groups: Any) -> Any:
        """Perform ``group``."""
        found = [_group(self, group) for group in groups or (0,)]
        return found[0] if len(found) == 1 else tuple(found)

    def __getitem__(self, group: Any) -> Any:
        return _group(self, group)

    def groups(self, default: Any = None) -> Any:
        """Perform ``groups``."""
        numbers = range(1, self.__match__.re.groups + 1)
        return tuple(default if self.__match__.start(number) < 0 else _group(self, number) for number in numbers)

    def groupdict(self, default: Any = None) -> Any:
        """Perform ``groupdict``."""
        names = self.__match__.re.groupindex.items()
        return {name: default if self.__match__.start(number) < 0 else _group(self, number) for name, number in names}

    def expand(self, template: Any) -> str:
        """Perform ``expand``."""
        if type(template) is not str:
            raise TypeError("expected text")
        return _expanded(self.__space__, self.__match__, template)


def _below(depth: int, make: Callable[[], Pattern]) -> Pattern:
    """Return ``make()``, called ``depth`` frames below the script: ``re`` warns in the name of a frame far above."""
    return make() if depth == 0 else _below(depth - 1, make)


def _group(match: Match, group: Any) -> Any:
    """Return one group after paying for its copy."""
    start, end = match.__match__.span(group)
    if end - start > prices.BYTES:
        match.__space__.meter.charge((end - start) // prices.BYTES)
    return match.__match__[group]


def _expanded(space: Namespace, match: Any, template: str) -> str:
    """Return a template with the groups of ``match`` in it, sized before it is made."""
    if "\\" not in template:
        return template
    if len(template) > MOST_TEMPLATE:
        raise ValueError(f"a template with backslashes is at most {MOST_TEMPLATE:,} characters long in scripts")
    try:
        parts = _template(template, match.re)
    except real.error as error:
        raise ValueError(str(error)) from None
    size = sum(len(part) if type(part) is str else match.end(part) - match.start(part) for part in parts)
    space.operators.sized(size, match.string)
    return "".join(part if type(part) is str else match[part] or "" for part in parts)


def _template(template: str, pattern: Any) -> list[str | int]:
    """Return the literal parts of a template and its numbers of groups, in order."""
    parsed = parser.parse_template(template, pattern)
    if sys.version_info >= (3, 12):
        return [part for part in parsed if part != ""]
    groups, literals = parsed
    numbers = dict(groups)
    return [numbers[place] if literal is None else literal for place, literal in enumerate(literals)]


def _pay(pattern: Pattern, text: Any, *, is_anchored: bool) -> None:
    if type(text) is not str:
        raise TypeError(f"expected string, got {type(text).__name__!r}")
    steps = pattern.__shape__.steps(len(text), is_anchored=is_anchored)
    pattern.__space__.meter.charge(1 + steps // prices.STEPS)


def _once(pattern: Pattern, name: str, text: Any) -> Any:
    _pay(pattern, text, is_anchored=name != "search")
    found = getattr(pattern.__pattern__, name)(text)
    return None if found is None else pattern.__wrap__(found)


def _replaced(pattern: Pattern, repl: Any, text: Any, count: Any) -> tuple[str, int]:
    if type(count) is not int:
        raise TypeError("count must be an integer")
    if not -sys.maxsize <= count <= sys.maxsize:
        raise OverflowError("count is too large")
    if type(repl) is not str and not callable(repl):
        raise TypeError(f"the replacement is text or a function, not {type(repl).__name__!r}")
    _pay(pattern, text, is_anchored=False)
    space = pattern.__space__
    parts: list[str] = []
    position = size = done = 0
    for found in pattern.__pattern__.finditer(text):
        if count and done >= count:
            break
        done += 1
        space.meter.charge(1)
        new = _replacement(pattern, found, repl)
        size += found.start() - position + len(new)
        if size > 256:
            space.meter.fits(size)
        parts += [text[position : found.start()], new]
        position = found.end()
    return space.rendering.cat(*parts, text[position:]), done


def _replacement(pattern: Pattern, found: Any, repl: Any) -> str:
    if type(repl) is str:
        return _expanded(pattern.__space__, found, repl)
    new = repl(pattern.__wrap__(found))
    if type(new) is not str:
        raise TypeError(f"expected str instance, {type(new).__name__} found")
    return new
