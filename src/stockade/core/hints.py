"""A missing attribute names the one that was probably meant: other tools have other names for the same thing."""

from __future__ import annotations

from stockade.core.errors import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Hinting:
    """Base of classes whose error about a missing attribute suggests one. Type checkers see no such attribute."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise ``AttributeError`` with the attribute that was probably meant."""
            kind = type(self)
            near = "" if name.startswith("_") else nearest(name, [each for each in dir(kind) if each[0] != "_"])
            hint = f"; did you mean {near!r}?" if near else ""
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)
