"""``python -m stockade.attacks.worker``: a campaign's worker process. It reads orders and writes trials, as JSON lines.

A trial can hit the process that runs it, so this is a process of its own, with its own warden. The worker removes its
stages and ends when its caller ends or sends SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from stockade.attacks import corpus, outside, trial
from stockade.attacks.internet import trials
from stockade.core.strict_json import dumps


def main() -> None:
    """Serve until the caller closes standard input."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides what Ctrl-C does
    outside.adopt_orphans()
    try:
        for line in sys.stdin:
            _run_order(json.loads(line))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the caller is gone
    finally:
        trials.stop()
        outside.stop_warden()


def _run_order(order: dict[str, Any]) -> None:
    """Try one attack on each backend of the order, and print each trial as it ends."""
    attack = corpus.parse(Path(order["path"]))
    for backend in order["backends"]:
        tried = trial.attempt(attack, backend, base=order["base"], controls=order["controls"])
        print(dumps(tried.as_json()), flush=True)


def _leave(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not interrupt the removal of the stages
    raise SystemExit(0)


if __name__ == "__main__":
    main()
