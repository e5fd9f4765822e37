"""The figures of a service for prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """Counters since the start of the server. No label has a text from a client."""

    def __init__(self) -> None:
        to = self._registry = CollectorRegistry()
        self._accepted = Counter("stockade_runs_accepted", "Runs that were accepted.", registry=to)
        self._finished = Counter("stockade_runs_finished", "Runs with a result.", ["outcome"], registry=to)
        self._refused = Counter("stockade_requests_refused", "Requests that were refused.", ["status"], registry=to)
        self._restarts = Counter("stockade_worker_restarts", "Workers that ended by themselves.", registry=to)
        self._limits = Counter("stockade_limits_reached", "Limits passed by runs.", ["limit", "state"], registry=to)
        self._alerts = Counter("stockade_alerts", "Alerts about runs.", ["rule"], registry=to)
        self._sandboxes = Gauge("stockade_sandboxes", "Living sandboxes that are open.", registry=to)
        self._runs = Gauge("stockade_runs", "Runs that wait, and runs that a worker holds.", ["state"], registry=to)

    def accepted(self) -> None:
        """Count an accepted run."""
        self._accepted.inc()

    def finished(self, outcome: str) -> None:
        """Count a run with a result."""
        self._finished.labels(outcome).inc()

    def reached(self, limit: str, state: str) -> None:
        """Count a limit that is ``near`` or ``met``, or a ``soft`` one of memory that is passed."""
        self._limits.labels(limit, state).inc()

    def alerted(self, rule: str) -> None:
        """Count an alert."""
        self._alerts.labels(rule).inc()

    def refused(self, status: int) -> None:
        """Count a request that was refused."""
        self._refused.labels(str(status)).inc()

    def restarted(self) -> None:
        """Count a worker that ended by itself."""
        self._restarts.inc()

    def text(self, runs: Mapping[str, int], sandboxes: int = 0) -> bytes:
        """Return all figures, with how many runs are in which state, and how many sandboxes are open."""
        self._sandboxes.set(sandboxes)
        for state, number in runs.items():
            self._runs.labels(state).set(number)
        return generate_latest(self._registry)
