"""The errors a caller can meet. A sandbox that failed is never reported as code that failed."""

from __future__ import annotations

TYPE_CHECKING = False  # loaded with the face itself: when its files are gone, this is what says so
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any


class StockadeError(Exception):
    """Base of every error that stockade raises on purpose."""

    def as_json(self) -> dict[str, Any]:
        """Return the error as JSON-compatible data: at least ``error`` (its class) and ``message``."""
        return {"error": type(self).__name__, "message": str(self)}


class FieldProblem:
    """One mistake in a policy: where, with which value, and why; ``origin`` is who set it, where several may have."""

    def __init__(self, field: str, value: str, reason: str, origin: str = "") -> None:
        self.field, self.value, self.reason, self.origin = field, value, reason, origin

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same mistake."""
        return vars(self) == vars(other) if isinstance(other, FieldProblem) else NotImplemented

    def __hash__(self) -> int:
        """Return a number for sets."""
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        """Return how it is made."""
        return f"FieldProblem({', '.join(map(repr, vars(self).values()))})"

    def __str__(self) -> str:
        """Return ``field = value: reason``, and the origin."""
        text = f"{self.field} = {self.value}: {self.reason}"
        return f"{text} ({self.origin})" if self.origin else text


class PolicyError(StockadeError):
    """The policy makes no sense. ``problems`` holds every mistake that was found, not only the first."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))

    def as_json(self) -> dict[str, Any]:
        """Return the problems as a list of ``field``, ``value``, ``reason`` and ``origin``."""
        return super().as_json() | {"problems": [vars(p) for p in self.problems]}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the one of ``known`` that was probably meant by ``name``, an empty text if none is near."""
    import difflib  # only where something is wrong

    return next(iter(difflib.get_close_matches(name, list(map(str, known)), n=1)), "")


class JobError(StockadeError):
    """What was asked to run makes no sense: no such language, an empty command, a NUL in an argument."""


class PlanError(StockadeError):
    """A guarantee that the policy asks for cannot be enforced here. Nothing was started.

    ``missing`` maps each guarantee to a sentence: what is missing, and what to install or loosen.
    """

    def __init__(self, backend: str, missing: Mapping[str, str]) -> None:
        self.backend = backend
        self.missing = dict(missing)
        lines = "; ".join(f"{guarantee}: {reason}" for guarantee, reason in self.missing.items())
        super().__init__(f"backend {backend!r} cannot hold this policy here: {lines}")

    def as_json(self) -> dict[str, Any]:
        """Return the missing guarantees with their sentences."""
        return super().as_json() | {"backend": self.backend, "missing": self.missing}


class BackendUnavailable(StockadeError):
    """The backend cannot be used on this host at all; the message says what to install or enable."""


class SetupError(StockadeError):
    """The sandbox failed, not the code in it."""


class ProtocolError(StockadeError):
    """A guest or a warden sent bytes that break the protocol."""


class CommitError(StockadeError):
    """Changes could not be brought into the project; nothing of it was changed.

    ``conflicts`` has a path and a reason for each.
    """

    def __init__(self, conflicts: Sequence[Any]) -> None:
        self.conflicts = tuple(conflicts)
        shown = "; ".join(map(str, self.conflicts[:10]))
        more = len(self.conflicts) - 10
        super().__init__(f"nothing was committed: {shown}" + (f"; and {more} more" if more > 0 else ""))

    def as_json(self) -> dict[str, Any]:
        """Return the conflicts as a list of ``path`` and ``reason``."""
        return super().as_json() | {"conflicts": [vars(item) for item in self.conflicts]}
