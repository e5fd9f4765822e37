"""Settings for all runs of the process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stockade.api import configured
from stockade.core.errors import JobError
from stockade.core.hints import known_options
from stockade.observe.audit import Audit
from stockade.runs.hooks import Hooks, checked_labels

if TYPE_CHECKING:
    from stockade.observe.monitor import Monitor
    from stockade.policy.model import PolicyLike


@known_options
def configure(
    *,
    policy: PolicyLike | None = None,
    hooks: Hooks | Sequence[Hooks] = (),
    audit: Audit | str | os.PathLike[str] | None = None,
    monitor: Monitor | None = None,
    labels: Mapping[str, str] | None = None,
) -> None:
    """Set what holds for every later run of this process. Each call replaces what an earlier one set.

    policy: the policy of calls that name none: a ``Policy``, its fields as a mapping, or a profile's name.
    hooks: functions that learn of each run: see ``Hooks``.
    audit: an ``Audit``, or the path of one; every run is written there.
    monitor: a ``Monitor``, which raises alerts about runs.
    labels: labels of every run; a run's own labels are added, and win.

    ``stockade.evaluate`` has default policies of its own; hooks and audit hold for its runs, too. Raises
    ``PolicyError`` or ``JobError`` for a bad value, and nothing is set then.

        stockade.configure(policy="strict", audit="/var/log/app/audit.jsonl")
    """
    given = (hooks,) if isinstance(hooks, Hooks) else tuple(hooks)
    for each in given:
        if not isinstance(each, Hooks):
            raise JobError(f"hooks: expected stockade.Hooks, not {each!r:.80}")
    if monitor is not None:
        from stockade.observe.monitor import Monitor

        if not isinstance(monitor, Monitor):
            raise JobError(f"monitor: expected stockade.Monitor(...), not {monitor!r:.80}")
    checked = checked_labels(labels)
    if policy is not None:
        from stockade.policy.model import Policy

        policy = Policy.named(policy)
    if audit is not None:
        log = audit if isinstance(audit, Audit) else Audit(audit)
        given = (log.hooks, *given)
    if monitor is not None:
        given = (*given, monitor.hooks)
    configured.replace(policy=policy, hooks=given, labels=checked)
