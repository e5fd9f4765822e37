"""Following a run in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import stockade
from stockade import Output
from stockade.testing.base import Expectations

SLEEP = "import time; print('ready', flush=True); time.sleep(60)"
"""Source that says that it is there, and waits."""

Act = Callable[[stockade.Stream], object]


class Following(Expectations):
    """How the contracts about streams come to theirs."""

    def stream(
        self,
        source: str,
        *,
        policy: Mapping[str, Any] | None = None,
        report_seconds: float | None = None,
        **options: Any,
    ) -> stockade.Stream:
        """Follow source under the policy with these fields."""
        box = stockade.Runner(self.policy(**policy or {}), backend=self.backend)
        return box.stream(source, report_seconds=report_seconds, **self._options(options))

    def steered(self, source: str, act: Act, **options: Any) -> tuple[str, stockade.Result]:
        """Follow source, do ``act`` at its first output, and return the standard output and the result."""
        with self.stream(source, **options) as run:
            printed = b""
            for event in run:
                if isinstance(event, Output) and event.stream == 1:
                    if not printed:
                        act(run)
                    printed += event.data
        return printed.decode(), run.result
