"""``collections``."""

from __future__ import annotations

import collections as real
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.owned import defaultdict, deque
from stockade.embedded.boundary.rendering import MODULE

if TYPE_CHECKING:
    from stockade.embedded.boundary.namespace import Namespace


def collections(space: Namespace) -> dict[str, Any]:
    """Return the members of ``collections``."""
    made = _Collections(space)
    facade = space.classes.facade
    return {
        "Counter": facade("Counter", Counter, made.counter),
        "OrderedDict": facade("OrderedDict", OrderedDict, made.ordered),
        "defaultdict": facade("defaultdict", defaultdict, made.default),
        "deque": facade("deque", deque, made.deque),
        "namedtuple": made.namedtuple,
    }


class _Collections:
    """Constructors of containers."""

    def __init__(self, space: Namespace) -> None:
        self._space = space

    def counter(self, source: Any = None, /, **named: Any) -> Any:
        """Return a ``Counter``."""
        result: Counter[Any] = Counter()
        self._space.hashing.counter_update(result, source, **named)
        return result

    def ordered(self, *source: Any, **named: Any) -> Any:
        """Return an ``OrderedDict``."""
        return OrderedDict(*map(self._space.hashing.pairs, source), **named)

    def default(self, factory: Any = None, *source: Any, **named: Any) -> Any:
        """Return a ``defaultdict``."""
        return defaultdict(factory, *map(self._space.hashing.pairs, source), **named)

    def deque(self, values: Any = (), maxlen: Any = None) -> Any:
        """Return a ``deque``."""
        result = deque(maxlen=maxlen)
        if maxlen is None:
            result.extend(self._space.bulk.taken(values))
        else:
            result.extend(self._space.iterating.metered(values))
        return result

    def namedtuple(self, typename: Any, field_names: Any, *, rename: Any = False, defaults: Any = None) -> Any:
        """Return a class of named tuples."""
        if type(typename) is not str:
            raise TypeError("the name of a namedtuple must be text")
        names = (
            field_names.replace(",", " ").split() if type(field_names) is str else self._space.bulk.taken(field_names)
        )
        self._space.meter.charge(prices.CLASS * (2 + len(names) // prices.NODES))
        for name in (typename, *names):
            self._space.attributes.check(name)
        given = None if defaults is None else self._space.bulk.taken(defaults)
        return real.namedtuple(typename, names, rename=bool(rename), defaults=given, module=MODULE)
