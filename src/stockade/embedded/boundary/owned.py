"""Containers of scripts whose nests CPython can free. Freeing a deep nest of its own recurses until the stack ends.

Objects of a class that Python code defines are freed level by level. So scripts get these subclasses.
"""

from __future__ import annotations

import collections
from typing import Any


class deque(collections.deque[Any]):  # noqa: N801 - scripts see the name
    """A deque of a script."""

    __slots__ = ()


class defaultdict(collections.defaultdict[Any, Any]):  # noqa: N801 - scripts see the name
    """A dictionary with default values of a script."""

    __slots__ = ()
