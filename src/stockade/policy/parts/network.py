"""A bounded way out of the sandbox: the names and addresses that a guest may reach, and how much."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from stockade.core import targets
from stockade.core.targets import Target
from stockade.core.units import UNLIMITED, parse_count, parse_seconds, parse_size
from stockade.policy.parts.base import Part, as_tuple

PACKAGES = (
    "pypi.org:443",
    "files.pythonhosted.org:443",
    "registry.npmjs.org:443",
    "rubygems.org:443",
    "index.rubygems.org:443",
)
"""The public indexes of packages for Python, Node and Ruby."""
_MOST_CONNECTIONS = 256
_SHOWN = 4

_Unlimited = Literal["unlimited"]


def _pattern(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("expected a text such as 'packages.example.org:443'")
    return str(targets.parse_pattern(value))


def _once(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value))


def _number(parse: Any, least: float, most: float | None = None) -> tuple[Any, ...]:
    def check(value: Any) -> Any:
        number = parse(value)
        if number == UNLIMITED and most is None:
            return number
        if number == UNLIMITED or number < least or (most is not None and number > most):
            raise ValueError(
                f"must be from {least:g} to {most:g}" if most is not None else f"must be at least {least:g}"
            )
        return number

    return BeforeValidator(check), WithJsonSchema({"anyOf": [{"type": "number", "minimum": least}, {"type": "string"}]})


_Patterns = Annotated[
    tuple[Annotated[str, BeforeValidator(_pattern)], ...], BeforeValidator(as_tuple), AfterValidator(_once)
]
_Connections = Annotated[int, *_number(parse_count, 1, _MOST_CONNECTIONS)]
_Count = Annotated[int | _Unlimited, *_number(parse_count, 1)]
_Size = Annotated[int | _Unlimited, *_number(parse_size, 1)]
_Rate = Annotated[int | _Unlimited, *_number(parse_size, 1024)]
_Seconds = Annotated[float, *_number(parse_seconds, 0.1, 3600.0)]


class Network(Part):
    """The targets that a guest may reach through the proxy of its run, and the most of everything.

    ``Network(allow=["packages.example.org:443", "*.example.com:443", "203.0.113.7:8080"])``. An empty list allows
    nothing. A name never leads to a private address; an address in the list allows exactly itself, even a private one.
    """

    place = ("network",)
    example = "; write Network(allow=['packages.example.org:443'])"

    allow: _Patterns = Field(
        default=(),
        description="targets that the guest may reach: 'HOST:PORT', '*.DOMAIN:PORT' for every name below a domain, or "
        "'ADDRESS:PORT', which may also be a private address",
    )
    packages: bool = Field(
        default=False, description="also allow the public indexes of packages for Python, Node and Ruby"
    )
    ask: bool = Field(
        default=False,
        description="ask the run's on_ask about names that are not listed; without an answer, refuse them",
    )
    secret_hosts: _Patterns | None = Field(
        default=None,
        description="servers that the secrets of a run may go to; unset: all targets of the list; an empty list: none",
    )
    connections: _Connections = Field(default=32, description="connections at the same time; more of them wait")
    requests: _Count = Field(default=1000, description="connections to the proxy in all, refused ones included")
    sent: _Size = Field(default=64 << 20, description="bytes that the guest may send in all")
    received: _Size = Field(default=512 << 20, description="bytes that the guest may receive in all")
    rate: _Rate = Field(default=32 << 20, description="bytes per second each way, over all connections")
    connect_time: _Seconds = Field(default=10.0, description="seconds to make one connection, or to send one request")
    idle_time: _Seconds = Field(default=60.0, description="seconds after which a connection without traffic is closed")
    ask_time: _Seconds = Field(default=30.0, description="seconds that on_ask has for an answer")

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """The patterns of ``allow``, with those of ``packages``."""
        named = (*self.allow, *(PACKAGES if self.packages else ()))
        return tuple(map(targets.parse_pattern, dict.fromkeys(named)))

    def takes_secrets(self, target: Target) -> bool:
        """Return whether a secret may go to ``target``, if the list allows it."""
        patterns = self.secret_hosts
        return patterns is None or any(targets.allows(targets.parse_pattern(each), target) for each in patterns)

    def __str__(self) -> str:
        """Name the first targets."""
        more = len(self.targets) - _SHOWN
        named = (", ".join(map(str, self.targets[:_SHOWN])) or "nothing") + (f" and {more} more" if more > 0 else "")
        return f"{named}, and names that on_ask allows" if self.ask else named


FIGURES = ("connections", "requests", "sent", "received", "rate", "connect_time", "idle_time", "ask_time")
"""The fields of ``Network`` that bound a use."""
