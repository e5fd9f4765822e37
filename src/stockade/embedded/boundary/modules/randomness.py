"""``random``: seeded by policy, so that a script makes the same choices each time. Use it for no secrets."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import INTEGERS

if TYPE_CHECKING:
    from stockade.embedded.boundary.namespace import Namespace

_LARGEST = 1e15
_NUMBERS = (
    "random",
    "uniform",
    "gauss",
    "normalvariate",
    "expovariate",
    "triangular",
    "lognormvariate",
    "paretovariate",
)


def random(space: Namespace) -> dict[str, Any]:
    """Return the members of ``random``."""
    drawn = _Drawn(space)
    members: dict[str, Any] = {name: _numeric(space, getattr(drawn.source, name)) for name in _NUMBERS}
    return members | {
        "randint": drawn.randint, "randrange": drawn.randrange, "getrandbits": drawn.getrandbits,
        "choice": drawn.choice, "choices": drawn.choices, "sample": drawn.sample, "shuffle": drawn.shuffle,
        "seed": drawn.seed,
    }  # fmt: skip


def _numeric(space: Namespace, perform: Any) -> Any:
    def guard(*args: Any, **kwargs: Any) -> Any:
        space.meter.charge(1)
        for value in (*args, *kwargs.values()):
            if type(value) not in (int, float, bool) or not abs(value) < _LARGEST:
                raise TypeError("random needs numbers of moderate size")
        return perform(*args, **kwargs)

    return guard


class _Drawn:
    """The random numbers of one runtime."""

    def __init__(self, space: Namespace) -> None:
        self._space, self._meter = space, space.meter
        self.source = Random(space.settings.seed)

    def _whole(self, *values: Any) -> None:
        for value in values:
            if type(value) not in INTEGERS:
                raise TypeError("random needs whole numbers")
            self._meter.charge(1 + value.bit_length() // prices.BYTES)

    def randint(self, a: Any, b: Any) -> int:
        """Perform ``randint``."""
        self._whole(a, b)
        return self.source.randint(a, b)

    def randrange(self, *bounds: Any) -> int:
        """Perform ``randrange``."""
        self._whole(*bounds)
        return self.source.randrange(*bounds)

    def getrandbits(self, k: Any) -> int:
        """Perform ``getrandbits``."""
        self._whole(k)
        if k > 0:
            self._meter.fits(k // 8)
            self._meter.charge(1 + k // 8 // prices.BYTES)
        return self._space.operators.noticed(self.source.getrandbits(k))

    def choice(self, values: Any) -> Any:
        """Perform ``choice``."""
        if not len(values):
            raise IndexError("Cannot choose from an empty sequence")
        self._meter.charge(1)
        return values[self.source.randrange(len(values))]

    def choices(self, population: Any, weights: Any = None, *, cum_weights: Any = None, k: Any = 1) -> Any:
        """Perform ``choices``."""
        self._whole(k)
        values = self._space.bulk.taken(population)
        self._space.operators.fits_elements(max(0, k))
        self._meter.charge(max(1, k))
        given = [None if each is None else self._space.bulk.taken(each) for each in (weights, cum_weights)]
        for each in given:
            if each is not None and not {type(one) for one in each} <= {int, float}:
                raise TypeError("weights must be numbers")
        return self.source.choices(values, given[0], cum_weights=given[1], k=k)

    def sample(self, population: Any, k: Any) -> Any:
        """Perform ``sample``."""
        self._whole(k)
        values = population if type(population) is range else self._space.bulk.taken(population)
        self._space.operators.fits_elements(max(0, k))
        self._meter.charge(max(1, k))
        return self.source.sample(values, k)

    def shuffle(self, values: Any) -> None:
        """Perform ``shuffle``."""
        if type(values) is not list:
            raise TypeError("shuffle needs a list")
        self._meter.charge(1 + len(values))
        self.source.shuffle(values)

    def seed(self, value: Any = None) -> None:
        """Perform ``seed``. Without a value, the seed of the runtime is taken again."""
        if value is not None and type(value) not in (int, float, str, bytes):
            raise TypeError("the seed must be a number or text")
        self._space.scales.weigh(value)
        self.source.seed(self._space.settings.seed if value is None else value)
