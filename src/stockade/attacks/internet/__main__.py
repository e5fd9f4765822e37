"""``python -m stockade.attacks.internet FOLDER``: build the small internet, then serve as a worker of trials in it."""

from __future__ import annotations

import sys
from pathlib import Path

from stockade.attacks import worker
from stockade.attacks.internet import network, trials


def main() -> None:
    """Build it, say so, and serve."""
    network.build(Path(sys.argv[1]))
    trials.inside = True
    print("{}", flush=True)
    worker.main()


if __name__ == "__main__":
    main()
