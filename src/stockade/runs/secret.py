"""A secret that a guest uses without seeing it: it holds a placeholder, and the run's proxy sets the value in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from stockade.core import targets
from stockade.core.errors import JobError
from stockade.core.hints import known_options
from stockade.core.targets import Target

GATEWAY = "STOCKADE_GATEWAY"
"""The guest's variable with the address of the gateway. ``$STOCKADE_GATEWAY/HOST/PATH`` stands for a URL of a host."""
_HTTPS, _HTTP = 443, 80
_LONGEST = 8192
_MOST = 32
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class Secret:
    """A value for HTTPS servers, such as an API key. It never enters a sandbox.

    ``hosts`` are the only servers that get the value: names, each with a port if it is not 443. A policy, a plan, a
    result or a log never holds the value; ``repr`` shows the hosts alone, and a secret cannot be pickled.
    """

    __slots__ = ("_value", "hosts", "variable")

    @known_options
    def __init__(self, value: str, *, hosts: Iterable[str]) -> None:
        self._value: str | None = value
        self.variable = ""
        """The variable that holds the value, if ``from_env`` made the secret."""
        self.hosts = _hosts(hosts)
        """The servers that get the value, as ``HOST:PORT``."""
        _check("the value", value)

    @classmethod
    @known_options
    def from_env(cls, variable: str, *, hosts: Iterable[str]) -> Secret:
        """Return the secret in an environment variable of this process, which each run reads anew."""
        made = cls("unread", hosts=hosts)
        made._value, made.variable = None, variable
        return made

    def reveal(self) -> str:
        """Return the value. Raises ``JobError`` if the variable is not set."""
        if self._value is not None:
            return self._value
        value = os.environ.get(self.variable)
        if value is None:
            raise JobError(f"secrets: the variable {self.variable} is not set in this process")
        _check(f"the value of {self.variable}", value)
        return value

    def __repr__(self) -> str:
        """Name the hosts, and nothing of the value."""
        return f"Secret(hosts={list(self.hosts)!r})"

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        """Refuse to be copied into a pickle."""
        raise TypeError("a Secret is not written anywhere, so it cannot be pickled or copied")


def placeholder(name: str) -> str:
    """Return the text that stands for the secret ``name`` inside."""
    return f"stockade-secret-{name}-is-kept-outside"  # a name has no "-", so no placeholder is part of another


def checked(secrets: Mapping[str, Any] | None) -> dict[str, Secret]:
    """Return the secrets of a run by name. Raises ``JobError`` for a name or a value that is not one."""
    found = dict(secrets or {})
    for name, secret in found.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise JobError(f"secrets: {name!r:.80} is not a variable name of letters, digits and '_'")
        if not isinstance(secret, Secret):
            raise JobError(f"secrets: {name} must be a stockade.Secret, not {type(secret).__name__}")
    if len(found) > _MOST:
        raise JobError(f"secrets: a run takes at most {_MOST} of them")
    return found


def _check(what: str, value: Any) -> None:
    fits = isinstance(value, str) and value.isascii() and value.isprintable() and " " not in value
    if not fits or not 0 < len(value) <= _LONGEST:
        raise JobError(
            f"secrets: {what} must be 1 to {_LONGEST} visible ASCII characters, as a header field takes them"
        )


def _hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    if isinstance(hosts, str):
        raise JobError(f"secrets: hosts must be a list, such as [{hosts!r}]")
    found = tuple(dict.fromkeys(str(_host(each)) for each in hosts))
    if not found:
        raise JobError("secrets: a secret needs the names of its hosts, such as hosts=['api.example.com']")
    return found


def _host(text: Any) -> Target:
    if isinstance(text, str) and "*" in text:
        raise JobError(f"secrets: {text!r:.80}: name each host; behind a wildcard, the gateway could verify no server")
    try:
        target = targets.parse(text, _HTTPS)
    except (AttributeError, TypeError, ValueError) as error:
        raise JobError(f"secrets: {text!r:.80} is not a host: {error}") from None
    if target.address:
        raise JobError(f"secrets: {text!r:.80}: a secret goes to a server by its name, which its certificate proves")
    if target.port == _HTTP:
        raise JobError(f"secrets: {text!r:.80}: port 80 is plain HTTP, which would show the secret on its way")
    return target
