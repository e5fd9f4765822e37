"""``python -m stockade.attacks.worker``: carries out trials, one line of JSON in and one out for each.

A process of its own, since a trial may hit whoever carries it out; it has a warden of its own, and ends when its caller
does or tells it to, with all that it has set up.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from stockade.attacks import corpus, outside, trial
from stockade.core.strict_json import dumps


def main() -> None:
    """Serve until the caller closes our standard input."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller's to pass on
    outside.adopt_orphans()
    try:
        for line in sys.stdin:
            _carry_out(json.loads(line))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the caller is gone
    finally:
        outside.stop_warden()


def _carry_out(order: dict[str, Any]) -> None:
    """Try one attack on each backend that the order names; answer after each."""
    attack = corpus.parse(Path(order["path"]))
    for backend in order["backends"]:
        tried = trial.attempt(attack, backend, base=order["base"], controls=order["controls"])
        print(dumps(tried.as_json()), flush=True)


def _leave(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: what was set up is being taken down
    raise SystemExit(0)


if __name__ == "__main__":
    main()
