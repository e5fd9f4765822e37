"""Helpers for tests that follow a run as it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import stockade
from stockade import Output
from stockade.testing.base import Expectations

SLEEP = "import time; print('ready', flush=True); time.sleep(60)"
"""Source that prints ``ready`` and then sleeps."""

Act = Callable[[stockade.Stream], object]


class Following(Expectations):
    """Opens streams for the tests of streaming, steering and feeding."""

    def stream(
        self,
        source: str,
        *,
        policy: Mapping[str, Any] | None = None,
        report_seconds: float | None = None,
        **options: Any,
    ) -> stockade.Stream:
        """Return a stream of source, under a policy with these fields."""
        box = stockade.Runner(self.policy(**policy or {}), backend=self.backend)
        return box.stream(source, report_seconds=report_seconds, **self._options(options))

    def steered(self, source: str, act: Act, **options: Any) -> tuple[str, stockade.Result]:
        """Follow source, call ``act`` at its first output, and return its standard output and the result."""
        with self.stream(source, **options) as run:
            printed = b""
            for event in run:
                if isinstance(event, Output) and event.stream == 1:
                    if not printed:
                        act(run)
                    printed += event.data
        return printed.decode(), run.result
