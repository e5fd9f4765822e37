"""Functions of the caller that learn of each run, and what they see of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from stockade.core.dataclass import dataclass
from stockade.core.errors import JobError
from stockade.core.hints import known_fields

if TYPE_CHECKING:
    from stockade.planning.denial import Denial
    from stockade.policy.model import Policy
    from stockade.runs.events import LimitReached
    from stockade.runs.result import Result

Kind = Literal["source", "command", "sandbox"]
ABANDONED = "the caller left before the verdict"
"""The message of ``on_error`` for a run that its caller left. For an error it is the class, a colon and the message."""
_MOST_LABELS = 16
_LONGEST_VALUE = 256
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class RunInfo:
    """A run as hooks see it."""

    id: str
    """Unguessable, and unique on every host."""
    kind: Kind
    """``"sandbox"`` is a living sandbox itself; the commands in it are runs of their own."""
    backend: str
    policy: Policy
    """The policy in force, under its ceiling."""
    labels: Mapping[str, str] = field(default_factory=dict)
    language: str = ""
    argv: tuple[str, ...] = ()
    source: bytes | None = field(default=None, repr=False)
    sandbox: str = ""
    """The ``id`` of the ``Sandbox`` to which the run belongs; empty for a run of its own."""


@known_fields
@dataclass(frozen=True)
class Hooks:
    """Functions that learn of runs, for a ``Runner``, a ``Sandbox``, or with ``stockade.configure`` for the process.

    - ``on_start(info)``: the run is about to start; nothing was sent yet.
    - ``on_warning(info, event)``, ``on_limit(info, event)``: a ``LimitReached`` that warns, or that is met.
    - ``on_denial(info, denial)``: a system call that the filter refused. The counts come at the end of the run.
    - ``on_error(info, message)``: stockade refused the run, its sandbox failed, or its caller left it.
    - ``on_finish(info, result)``: the verdict.

    Each ``on_start`` is followed by one ``on_finish``, or by one ``on_error`` if no verdict comes. A hook runs in the
    thread that follows the run. It cannot delay the end of a guest, which the warden enforces; a slow hook delays only
    its own caller. A coroutine function becomes a task of the running event loop.

    ``failures`` says what an exception from ``on_start`` does: ``"refuse"`` means that the run does not start and the
    exception reaches the caller, ``"record"`` means that the run starts. Exceptions from the other hooks never reach a
    run. Every one that reaches no caller is logged as an error of the logger ``stockade``.
    """

    on_start: Callable[[RunInfo], Any] | None = None
    on_warning: Callable[[RunInfo, LimitReached], Any] | None = None
    on_limit: Callable[[RunInfo, LimitReached], Any] | None = None
    on_denial: Callable[[RunInfo, Denial], Any] | None = None
    on_error: Callable[[RunInfo, str], Any] | None = None
    on_finish: Callable[[RunInfo, Result], Any] | None = None
    failures: Literal["refuse", "record"] = "refuse"

    def __post_init__(self) -> None:
        """Refuse a hook that cannot be called."""
        if self.failures not in ("refuse", "record"):
            raise JobError(f"hooks: failures = {self.failures!r}: 'refuse' or 'record'")
        for name, hook in vars(self).items():
            if name != "failures" and hook is not None and not callable(hook):
                raise JobError(f"hooks: {name} must be a function, not {hook!r:.80}")


def checked_labels(labels: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return a copy of the labels of a run. Raises ``JobError`` if they are too many, too long or not plain text."""
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise JobError(f"labels: expected a mapping, such as {{'user': 'alice'}}, not {labels!r:.80}")
    if len(labels) > _MOST_LABELS:
        raise JobError(f"labels: {len(labels)} are given, and a run has at most {_MOST_LABELS}")
    for name, value in labels.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise JobError(f"labels: {name!r:.80} is not a label's name: 1 to 64 of the characters A-Z a-z 0-9 _ . -")
        if not isinstance(value, str) or not value.isprintable() or len(value) > _LONGEST_VALUE:
            raise JobError(
                f"labels: the value of {name} must be printable text of at most {_LONGEST_VALUE} characters, "
                f"not {value!r:.80}"
            )
    return dict(labels)
