"""Reduce two values of one field, a policy's and its ceiling's, to the stricter one. Pure functions.

Each function takes the policy's value, the ceiling's and the whole policy. A value that has an order is clamped. A
path, variable or command that the ceiling does not name raises ``ValueError``: without it, the run would differ from
the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stockade.core import targets
from stockade.core.units import UNLIMITED
from stockade.policy import commands as _commands
from stockade.policy.guarantees import Guarantee, Isolation, Strength
from stockade.policy.parts.network import FIGURES, Network

_ACCESS = {"read": 0, "copy": 1, "overlay": 1, "write": 2}


def smaller(ours: Any, most: Any, _policy: Any) -> Any:
    """Return the smaller figure; ``"unlimited"`` is larger than every figure."""
    if UNLIMITED in (ours, most):
        return ours if most == UNLIMITED else most
    return min(ours, most)


def below_memory(ours: Any, most: Any, policy: Any) -> Any:
    """Return the smaller figure. If the memory limit is below the ceiling's figure, keep the policy's figure."""
    memory = policy.limits.memory
    if UNLIMITED not in (most, memory) and most >= memory:
        return ours
    return smaller(ours, most, policy)


def first_of(*strictest_first: Any) -> Callable[[Any, Any, Any], Any]:
    """Return a function that picks the stricter of two words."""

    def pick(ours: Any, most: Any, _policy: Any) -> Any:
        return min(ours, most, key=strictest_first.index)

    return pick


def union(ours: Sequence[Any], most: Sequence[Any], _policy: Any) -> Any:
    """Return both lists combined, since each list withholds something."""
    return (*ours, *(item for item in most if item not in ours))


def subset(ours: Sequence[Any], most: Sequence[Any], _policy: Any) -> Any:
    """Return the list if the ceiling has all its items."""
    return _refused(ours, [item for item in ours if item not in most])


def paths(ours: Sequence[str], most: Sequence[str], _policy: Any) -> Any:
    """Return the paths if all of them lie in paths of the ceiling."""
    return _refused(ours, [path for path in ours if not lies_in(path, most)])


def workspace(ours: str, most: str, _policy: Any) -> str:
    """Return the workspace if it is empty, or lies in the ceiling's."""
    if ours == "empty" or lies_in(ours, [most]):
        return ours
    raise ValueError(f"{ours!r} is not allowed")


def access(ours: str | None, most: str, policy: Any) -> str | None:
    """Return the stricter access; 'copy' and 'overlay' are equal, since both leave the folder itself unchanged."""
    if _ACCESS[effective_access(policy)] <= _ACCESS[most]:
        return ours
    if lies_in(policy.filesystem.workspace, policy.filesystem.write):
        raise ValueError(f"the workspace {policy.filesystem.workspace!r} lies in a path of 'write'")
    return most


def effective_access(policy: Any) -> str:
    """Return the access of a guest to its workspace, by the policy or by default."""
    files = policy.filesystem
    if lies_in(files.workspace, files.write):
        return "write"
    return files.access or ("write" if files.workspace == "empty" else "read")


def isolation(ours: str | None, most: str, _policy: Any) -> str | None:
    """Return the stronger isolation; an unset one counts as ``process``."""
    asked = Isolation(ours) if ours is not None else Isolation.PROCESS
    return ours if asked.at_least(Isolation(most)) else most


def network(ours: Any, most: Any, policy: Any) -> Any:
    """Return the stricter network: ``"none"``, then a table of targets, then ``"host"``.

    Two tables become the targets that both allow, with the smaller of two figures.
    """
    if "none" in (ours, most):
        return "none"
    if not (isinstance(ours, Network) and isinstance(most, Network)):
        return most if ours == "host" else ours
    figures = {name: smaller(getattr(ours, name), getattr(most, name), policy) for name in FIGURES}
    figures["ask"] = ours.ask and most.ask
    figures["secret_hosts"] = _secret_hosts(ours.secret_hosts, most.secret_hosts)
    both = Network(allow=tuple(map(str, targets.intersection(ours.targets, most.targets))), **figures)
    same = set(both.targets) == set(ours.targets) and all(getattr(ours, name) == each for name, each in figures.items())
    return ours if same else both


def _secret_hosts(ours: Sequence[str] | None, most: Sequence[str] | None) -> Sequence[str] | None:
    if ours is None or most is None:
        return most if ours is None else ours
    both = targets.intersection(map(targets.parse_pattern, ours), map(targets.parse_pattern, most))
    return ours if {*map(str, both)} == {*ours} else tuple(map(str, both))


def accept(ours: Mapping[Any, Any], most: Mapping[Any, Any], policy: Any) -> Any:
    """Return the accepted strengths, raised where the ceiling asks for more than the policy's floor."""
    raised = {key: most[key] for key in most if not policy.floor(Guarantee(key)).holds(Strength(most[key]))}
    return {**ours, **raised} if raised else ours


def commands(ours: Sequence[str] | None, most: Sequence[str], _policy: Any) -> Any:
    """Return the patterns if the ceiling's patterns cover each; an unset list becomes the ceiling's."""
    if ours is None:
        return tuple(most)
    return _refused(ours, [each for each in ours if not any(_commands.covers(wide, each) for wide in most)])


def imposed(_ours: Any, most: Any, _policy: Any) -> Any:
    """Return the ceiling's value: for this field, no value is stricter than another."""
    return most


def same_or_unset(ours: Any, most: Any, _policy: Any) -> Any:
    """Return the value if it is unset, or equal to the ceiling's."""
    return _refused(ours, [ours] if ours not in (None, most) else [])


def with_others(ours: Any, _most: Any, _policy: Any) -> Any:
    """Return the value: the ceiling decides on this field together with others."""
    return ours


def no_ceiling(ours: Any, most: Any, _policy: Any) -> Any:
    """Return the value: no ceiling can restrict this field."""
    if most:
        raise ValueError("restricts nothing, since a job may set any variable of its own; leave it out of the ceiling")
    return ours


def lies_in(path: str, folders: Sequence[str]) -> bool:
    """Return whether ``path`` is one of ``folders`` or lies below one, by name. Each run resolves links itself."""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _refused(ours: Any, forbidden: Sequence[Any]) -> Any:
    if forbidden:
        raise ValueError(f"{', '.join(map(repr, forbidden))} is not allowed")
    return ours
