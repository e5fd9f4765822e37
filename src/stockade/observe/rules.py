"""The rules of a monitor: pure functions from the end of a run, and a small state, to the next state and an alert.

A monitor keeps one state for each rule and each value of its label. A state is immutable and has a bounded size. The
time comes with the run, so a rule gives the same alerts for a live process and for its audit log.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

from stockade.core import targets
from stockade.core.errors import JobError
from stockade.observe.records import Ended
from stockade.runs.result import Outcome

_MOST_COUNT = 10_000
_MOST_KINDS = 64
_SHOWN = 5
_LEFT = frozenset({"CancelledError", "KeyboardInterrupt", "SystemExit"})
"""Errors by which callers leave runs."""
_ESCAPE_CALLS = """
add_key bpf chroot create_module delete_module finit_module fsconfig fsmount fsopen init_module ioperm iopl kcmp
kexec_file_load kexec_load keyctl mount mount_setattr move_mount name_to_handle_at open_by_handle_at open_tree
perf_event_open pivot_root process_madvise process_vm_readv process_vm_writev ptrace quotactl reboot request_key setns
swapoff swapon umount2 unshare userfaultfd
"""
ESCAPE_CALLS = frozenset(_ESCAPE_CALLS.split())
"""System calls that ordinary programs do not make, and that known ways out of a sandbox begin with."""


class Rule(Protocol):
    """Something to look for in the runs that have the same value of the label."""

    @property
    def name(self) -> str:
        """The name of the rule in alerts."""

    def step(self, state: Any, ended: Ended) -> tuple[Any, str]:
        """Return the state after ``ended``, and the message of an alert, or an empty text.

        ``state`` is ``None`` at first, and later what the last step returned. It must be immutable and bounded.
        """


def _check(rule: Any) -> None:
    for each in fields(rule):
        value = getattr(rule, each.name)
        whole = each.type == "int"
        number = type(value) is int or (type(value) is float and not whole)
        if not number or not 0 < value <= (_MOST_COUNT if whole else float("inf")):
            most = f"a whole number from 1 to {_MOST_COUNT:,}" if whole else "seconds above 0"
            raise JobError(f"{type(rule).__name__}: {each.name} = {value!r:.80}: must be {most}")


_Counted = tuple[tuple[float, int], ...]


def _recent(state: _Counted | None, ended: Ended, count: int, within: float) -> _Counted:
    """Return the counts of the last ``within`` seconds with a new one. A clock that was set back ends older ones."""
    return (*(each for each in state or () if abs(ended.at - each[0]) < within), (ended.at, count))


@dataclass(frozen=True)
class DeniedCalls:
    """The filter and the proxy refuse ``count`` system calls and connections within ``within`` seconds.

    System calls are counted only under ``security.explain_denials``. After an alert, the count begins again.
    """

    name: ClassVar[str] = "denied_calls"
    count: int = 100
    within: float = 60.0

    def __post_init__(self) -> None:
        """Refuse figures that make no sense."""
        _check(self)

    def step(self, state: _Counted | None, ended: Ended) -> tuple[_Counted | None, str]:
        """Count the refusals of one run."""
        refused = sum(ended.denials.values()) + ended.refused
        if not refused:
            return state, ""
        recent = _recent(state, ended, refused, self.within)
        found = sum(number for _, number in recent)
        if found < self.count:
            return recent, ""
        calls = sorted(ended.denials, key=lambda name: (-ended.denials[name], name))
        named = f"; in the last run {', '.join(calls[:_SHOWN])}" if calls else ""
        return (), f"{found:,} system calls and connections were refused within {self.within:g} s{named}"


@dataclass(frozen=True)
class LimitsMet:
    """Limits end ``count`` runs within ``within`` seconds. After an alert, the count begins again."""

    name: ClassVar[str] = "limits_met"
    count: int = 10
    within: float = 600.0

    def __post_init__(self) -> None:
        """Refuse figures that make no sense."""
        _check(self)

    def step(self, state: _Counted | None, ended: Ended) -> tuple[_Counted | None, str]:
        """Count a run that a limit ended."""
        if ended.outcome != Outcome.LIMIT_EXCEEDED:
            return state, ""
        recent = _recent(state, ended, 1, self.within)
        if len(recent) < self.count:
            return recent, ""
        return (), f"a limit ended {len(recent)} runs within {self.within:g} s, the last one by {ended.limit}"


@dataclass(frozen=True)
class NewFailure:
    """After ``after`` runs, one fails in a way that is new.

    Kinds are: the limit that ended a run, the signal that it crashed by, a failed sandbox, and the class of an error of
    stockade's own. An exit status does not count as a kind, because programs fail in so many ways. The rule remembers
    64 kinds.
    """

    name: ClassVar[str] = "new_failure"
    after: int = 20

    def __post_init__(self) -> None:
        """Refuse figures that make no sense."""
        _check(self)

    def step(self, state: tuple[int, frozenset[str]] | None, ended: Ended) -> tuple[tuple[int, frozenset[str]], str]:
        """Remember the kind of a failure."""
        seen, kinds = state or (0, frozenset())
        kind = _kind(ended)
        is_new = bool(kind) and kind not in kinds and len(kinds) < _MOST_KINDS
        after = (min(seen + 1, self.after), kinds | {kind} if is_new else kinds)
        alert = is_new and seen >= self.after
        return after, f"the first run that ended like this: {kind}" if alert else ""


@dataclass(frozen=True)
class EscapeAttempt:
    """A run does what ways out of a sandbox begin with. The sandbox refused it; at most one alert in ``quiet`` seconds.

    It was refused a system call of ``ESCAPE_CALLS`` or ``distinct`` different calls, or a connection to an address that
    is not public, such as a cloud's metadata, or the filter killed it. The calls are known only under
    ``security.explain_denials``.
    """

    name: ClassVar[str] = "escape_attempt"
    distinct: int = 8
    quiet: float = 60.0

    def __post_init__(self) -> None:
        """Refuse figures that make no sense."""
        _check(self)

    def step(self, state: float | None, ended: Ended) -> tuple[float | None, str]:
        """Look for signs in one run."""
        message = self._signs(ended)
        if not message or (state is not None and abs(ended.at - state) < self.quiet):
            return state, ""
        return ended.at, message

    def _signs(self, ended: Ended) -> str:
        calls = sorted(ESCAPE_CALLS.intersection(ended.denials))
        closed = [each for each in ended.refused_targets if _is_closed(each)]
        signs = [f"the filter refused {', '.join(calls[:_SHOWN])}"] if calls else []
        if not calls and len(ended.denials) >= self.distinct:
            signs.append(f"the filter refused {len(ended.denials)} different system calls")
        if closed:
            signs.append(f"the proxy refused connections to {', '.join(closed[:_SHOWN])}")
        if ended.signal == signal.SIGSYS:
            signs.append("the filter killed the program")
        return "; ".join(signs)


def _kind(ended: Ended) -> str:
    """Return the kind of a failure; empty for none."""
    if ended.outcome == Outcome.LIMIT_EXCEEDED:
        return f"{ended.outcome} {ended.limit}"
    if ended.outcome == Outcome.CRASHED:
        return f"{ended.outcome} by signal {ended.signal}"
    if ended.outcome == Outcome.SANDBOX_FAILED:
        return str(ended.outcome)
    return "" if ended.error in _LEFT else ended.error


def _is_closed(text: str) -> bool:
    try:
        address = targets.parse(text).address
    except ValueError:
        return False
    return bool(address) and bool(targets.why_closed(address))


RULES: tuple[Rule, ...] = (DeniedCalls(), LimitsMet(), NewFailure(), EscapeAttempt())
"""The rules of a monitor that is given none."""
