"""How a call of an engine can end without a value. ``Runtime`` turns each into the error that a host catches."""

from __future__ import annotations


class Exhausted(Exception):
    """A cap was hit: ``cap``, ``figure`` and ``line`` are the arguments."""


class Failed(Exception):
    """The script raised: class name, message and line are the arguments."""


class Uncrossable(Exception):
    """A value cannot cross the border: the argument is the reason."""
