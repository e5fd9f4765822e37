"""Start a warden: ``python -I -S .../stockade/warden/__main__.py CONTROL_FD CALLER_PID``.

An empty module with the right path stands in for the package, so that its public face is not imported. So nothing
outside of the standard library is importable here, and the start takes milliseconds.
"""

from __future__ import annotations

import os
import sys
import types


def _enter_package() -> None:
    package = types.ModuleType("stockade")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules["stockade"] = package


if __name__ == "__main__":
    _enter_package()
    from stockade.warden.process import main

    main(int(sys.argv[1]), int(sys.argv[2]))
