"""``Monitor`` looks at the ends of runs by rules, and raises alerts."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stockade.core import log
from stockade.core.errors import JobError
from stockade.core.hints import known_options
from stockade.core.strict_json import dumps
from stockade.observe.delivery import Delivery
from stockade.observe.records import Ended, error_fields, finish_fields
from stockade.observe.rules import RULES, Rule
from stockade.runs.hooks import Hooks, RunInfo

if TYPE_CHECKING:
    from stockade.observe.webhook import Webhook
    from stockade.runs.result import Result

MOST_VALUES = 1024
"""Values of the label that a monitor remembers. One more makes it forget the value that it has not seen for longest."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class Alert:
    """A finding of a rule."""

    rule: str
    label: str
    """The label of the runs, as ``user=eve``; empty for runs without it. ``stockade kill --label`` takes it."""
    run: str
    """The id of the run with which the rule was met."""
    at: str
    """The time in UTC, as in RFC 3339."""
    message: str

    def __str__(self) -> str:
        """Return the alert as a line."""
        return f"{self.rule}: {f'{self.label}: ' if self.label else ''}{self.message}"

    def as_json(self) -> dict[str, str]:
        """Return the alert as JSON-compatible data."""
        return asdict(self)


class Judge:
    """Rules with their states: ends of runs in, alerts out. It does no I/O, and its memory is bounded."""

    def __init__(self, label: str = "user", rules: Iterable[Rule] = RULES) -> None:
        """``label`` is the name of the label whose values are looked at apart from each other."""
        self._label, self._rules = label, tuple(rules)
        if not isinstance(label, str) or not _NAME.fullmatch(label):
            raise JobError(f"monitor: label = {label!r:.80}: expected a label's name, such as 'user'")
        for rule in self._rules:
            if isinstance(rule, type) or not callable(getattr(rule, "step", None)) or not hasattr(rule, "name"):
                raise JobError(f"monitor: rules: expected a rule, such as LimitsMet(count=5), not {rule!r:.80}")
        self._states: OrderedDict[str, list[Any]] = OrderedDict()

    def judge(self, ended: Ended) -> list[Alert]:
        """Return the alerts that a run leads to."""
        value = ended.labels.get(self._label, "")
        states = self._states.setdefault(value, [None] * len(self._rules))
        self._states.move_to_end(value)
        if len(self._states) > MOST_VALUES:
            self._states.popitem(last=False)
        found = []
        for number, rule in enumerate(self._rules):
            states[number], message = rule.step(states[number], ended)
            if message:
                label = f"{self._label}={value}" if self._label in ended.labels else ""
                found.append(Alert(rule.name, label, ended.run, _time(ended.at), message))
        return found


class Monitor:
    """Looks at the end of each run by rules, and raises alerts: to the log, to a function, to a webhook.

    label: the name of the label that says who a run is for. Runs with different values are looked at apart.
    rules: the rules; by default ``DeniedCalls``, ``LimitsMet``, ``NewFailure`` and ``EscapeAttempt``, which
        ``stockade.observe.rules`` defines.
    on_alert: a function of yours that gets each ``Alert``, in a thread of the monitor.
    webhook: a ``Webhook``, or the URL of one, that gets each alert as JSON.
    clock: a function that returns seconds since the epoch.

    Every alert is logged as a warning of the logger ``stockade``. A function or a webhook that is slow delays no run:
    up to 1,000 alerts wait for it, and later ones are only logged. At its end, the process waits 5 seconds for them.

    Pass it to ``stockade.configure(monitor=...)``, or its ``hooks`` to a ``Runner``. Raises ``JobError``
    for a bad value.
    """

    @known_options
    def __init__(
        self,
        *,
        label: str = "user",
        rules: Sequence[Rule] = RULES,
        on_alert: Callable[[Alert], Any] | None = None,
        webhook: Webhook | str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if on_alert is not None and not callable(on_alert):
            raise JobError(f"monitor: on_alert must be a function, not {on_alert!r:.80}")
        self._judge, self._clock, self._on_alert = Judge(label, rules), clock, on_alert
        self._webhook = None if webhook is None else _webhook(webhook)
        self._lock = threading.Lock()
        self._delivery: Delivery[Alert] | None = None
        if on_alert is not None or self._webhook is not None:
            self._delivery = Delivery(self._deliver)
        self.hooks = Hooks(on_error=self._error, on_finish=self._finish, failures="record")
        """The hooks that look at runs."""

    def wait(self, seconds: float = 5.0) -> bool:
        """Wait until all alerts are delivered, but at most ``seconds``. Return whether they are."""
        return self._delivery is None or self._delivery.drain(seconds)

    def _error(self, info: RunInfo, message: str) -> None:
        self._look(Ended.of(error_fields(info, message), self._clock()))

    def _finish(self, info: RunInfo, result: Result) -> None:
        self._look(Ended.of(finish_fields(info, result), self._clock()))

    def _look(self, ended: Ended) -> None:
        with self._lock:
            alerts = self._judge.judge(ended)
        for alert in alerts:
            log.warning("alert: %s", alert)
            if self._delivery is not None:
                self._delivery.put(alert)

    def _deliver(self, alert: Alert) -> None:
        try:
            if self._on_alert is not None:
                self._on_alert(alert)
        finally:
            if self._webhook is not None:
                self._webhook.deliver(dumps(alert.as_json(), compact=True).encode())


def _webhook(webhook: Webhook | str) -> Webhook:
    from stockade.observe.webhook import Webhook

    if isinstance(webhook, Webhook):
        return webhook
    return Webhook(webhook)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
