"""The small internet of the attacks, with a caller in it that runs what tests ask for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from stockade.attacks.internet import AS_ROOT, AS_USER, OTHER, PRIVATE, WEB
from stockade.attacks.internet.network import make_certificates

__all__ = ["OTHER", "PRIVATE", "VALUE", "WEB", "Internet"]
VALUE = "sk-value-that-nobody-may-see"
"""The value of each secret."""


class Internet:
    """An internet, and a caller in it."""

    def __init__(self, folder: Path) -> None:
        """``folder`` keeps the certificates and the names."""
        make_certificates(folder)
        self.folder = folder
        own = AS_ROOT if os.geteuid() == 0 else AS_USER
        self._process = subprocess.Popen(
            [*own, sys.executable, "-m", "tests.support.internet.caller", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        self.authority = (folder / "ca.pem").read_text()
        if self._answer() != "ready":
            raise RuntimeError("the caller did not start")

    def ask(self, kind: str, **fields: Any) -> Any:
        """Have the caller do something; return its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([kind, fields]).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the caller has ended: {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """End the caller, and with it everything in its namespaces."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()
