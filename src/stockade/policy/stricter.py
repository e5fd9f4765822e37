"""Two values of one field, a policy's and its ceiling's, to the stricter of the two. Pure functions.

Each takes the policy's value, the ceiling's and the whole policy. What has an order is clamped; a path, a variable or
a command that the ceiling does not name is refused with ``ValueError``, since to drop it would run something else than
was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stockade.core.units import UNLIMITED
from stockade.policy import commands as _commands
from stockade.policy.guarantees import Guarantee, Isolation, Strength

_ACCESS = {"read": 0, "copy": 1, "overlay": 1, "write": 2}


def smaller(ours: Any, most: Any, _policy: Any) -> Any:
    """Return the smaller figure; ``"unlimited"`` is larger than any."""
    if UNLIMITED in (ours, most):
        return ours if most == UNLIMITED else most
    return min(ours, most)


def below_memory(ours: Any, most: Any, policy: Any) -> Any:
    """Return the smaller figure, unless the limit on memory ends the run before it, where it would mean nothing."""
    memory = policy.limits.memory
    if UNLIMITED not in (most, memory) and most >= memory:
        return ours
    return smaller(ours, most, policy)


def first_of(*strictest_first: Any) -> Callable[[Any, Any, Any], Any]:
    """Return what picks the stricter of two words."""

    def pick(ours: Any, most: Any, _policy: Any) -> Any:
        return min(ours, most, key=strictest_first.index)

    return pick


def union(ours: Sequence[Any], most: Sequence[Any], _policy: Any) -> Any:
    """Return both lists: what is withheld by either."""
    return (*ours, *(item for item in most if item not in ours))


def subset(ours: Sequence[Any], most: Sequence[Any], _policy: Any) -> Any:
    """Return the list if the ceiling has all of it."""
    return _refused(ours, [item for item in ours if item not in most])


def paths(ours: Sequence[str], most: Sequence[str], _policy: Any) -> Any:
    """Return the paths if they all lie in those of the ceiling."""
    return _refused(ours, [path for path in ours if not lies_in(path, most)])


def workspace(ours: str, most: str, _policy: Any) -> str:
    """Return the workspace if it is an empty one, or lies in the ceiling's."""
    if ours == "empty" or lies_in(ours, [most]):
        return ours
    raise ValueError(f"{ours!r} is not allowed")


def access(ours: str | None, most: str, policy: Any) -> str | None:
    """Return the stricter of two kinds of access; 'copy' and 'overlay' both leave the folder itself alone."""
    if _ACCESS[effective_access(policy)] <= _ACCESS[most]:
        return ours
    if lies_in(policy.filesystem.workspace, policy.filesystem.write):
        raise ValueError(f"the workspace {policy.filesystem.workspace!r} lies in what 'write' opens")
    return most


def effective_access(policy: Any) -> str:
    """Return what a guest may do in its workspace, as the policy says or leaves it unsaid."""
    files = policy.filesystem
    if lies_in(files.workspace, files.write):
        return "write"
    return files.access or ("write" if files.workspace == "empty" else "read")


def isolation(ours: str | None, most: str, _policy: Any) -> str | None:
    """Return the stronger isolation; unset asks for a process."""
    asked = Isolation(ours) if ours is not None else Isolation.PROCESS
    return ours if asked.at_least(Isolation(most)) else most


def accept(ours: Mapping[Any, Any], most: Mapping[Any, Any], policy: Any) -> Any:
    """Return what is accepted, raised where the ceiling asks for more than the policy's floor."""
    raised = {key: most[key] for key in most if not policy.floor(Guarantee(key)).holds(Strength(most[key]))}
    return {**ours, **raised} if raised else ours


def commands(ours: Sequence[str] | None, most: Sequence[str], _policy: Any) -> Any:
    """Return the patterns if what the ceiling allows covers each; unset is the ceiling's list."""
    if ours is None:
        return tuple(most)
    return _refused(ours, [each for each in ours if not any(_commands.covers(wide, each) for wide in most)])


def imposed(_ours: Any, most: Any, _policy: Any) -> Any:
    """Return the ceiling's value, where neither of two is the stricter."""
    return most


def same_or_unset(ours: Any, most: Any, _policy: Any) -> Any:
    """Return the value if it is unset, or the ceiling's."""
    return _refused(ours, [ours] if ours not in (None, most) else [])


def with_others(ours: Any, _most: Any, _policy: Any) -> Any:
    """Return the value: what a ceiling says of it is decided with other fields."""
    return ours


def no_ceiling(ours: Any, most: Any, _policy: Any) -> Any:
    """Return the value: it is nothing that could be restricted."""
    if most:
        raise ValueError("restricts nothing: a job may set any variable of its own, so leave it out of the ceiling")
    return ours


def lies_in(path: str, folders: Sequence[str]) -> bool:
    """Return whether ``path`` is one of ``folders`` or lies below one, by name; links are a matter of each run."""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _refused(ours: Any, forbidden: Sequence[Any]) -> Any:
    if forbidden:
        raise ValueError(f"{', '.join(map(repr, forbidden))} is not allowed")
    return ours
