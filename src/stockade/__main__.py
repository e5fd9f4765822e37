"""``python -m stockade``: the command line."""

import sys

from stockade.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
