"""``import`` in a script: a fixed list of modules, each a facade with a fixed list of members."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.facades import module

if TYPE_CHECKING:
    from stockade.embedded.boundary.namespace import Namespace

MODULES = {
    "base64": "encodings", "hashlib": "encodings", "json": "jsons", "re": "patterns", "datetime": "moments",
    "time": "moments", "math": "mathematics", "statistics": "mathematics", "decimal": "mathematics",
    "fractions": "mathematics", "itertools": "iteration", "functools": "calls", "collections": "collecting",
    "heapq": "ordered", "bisect": "ordered", "operator": "calls", "random": "randomness", "string": "wording",
    "textwrap": "wording", "enum": "classes", "typing": "classes", "abc": "classes", "dataclasses": "records",
    "contextlib": "contexts", "copy": "copies", "collections.abc": "classes",
}  # fmt: skip


class Importing:
    """The modules of one runtime."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._loaded: dict[str, Any] = {}

    def load(self, name: str, member: str = "") -> Any:
        """Return the facade of a module, or one member of it."""
        found = self._loaded.get(name)
        if found is None:
            place = MODULES.get(name)
            if not place:
                known = ", ".join(sorted(each for each in MODULES if MODULES[each]))
                raise ModuleNotFoundError(f"No module named {name!r} in scripts; there are {known}", name=name)
            before = sys.getallocatedblocks()
            builder = import_module(f"stockade.embedded.boundary.modules.{place}")
            found = module(name.rpartition(".")[2], getattr(builder, name.replace(".", "_"))(self._namespace))
            self._loaded[name] = found
            self._namespace.meter.forgive(sys.getallocatedblocks() - before)
        if not member:
            return found
        try:
            return getattr(found, self._plain(member))
        except AttributeError:
            raise ImportError(f"cannot import name {member!r} from {name!r} in scripts", name=name) from None

    @staticmethod
    def _plain(member: str) -> str:
        if member.startswith("__"):
            raise AttributeError(member)
        return member
