"""Hands trials that need the small internet to a worker inside of it, which lives until ``stop``."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from stockade.attacks import outside
from stockade.attacks.internet import AS_ROOT, AS_USER
from stockade.attacks.internet.network import make_certificates
from stockade.attacks.world import StageError
from stockade.core.strict_json import dumps
from stockade.linux import places

STAGE = "internet"
"""The stage of attacks that need it."""
_START_SECONDS, _TRIAL_SECONDS, _END_SECONDS = 30.0, 80.0, 10.0
_OF_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")

inside = False
"""Whether this process is such a worker."""
_worker: _Worker | None = None


class _Worker:
    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=outside.prefix()))
        self._folder.chmod(0o755)
        make_certificates(self._folder)
        paths = os.pathsep.join(filter(None, sys.path))
        own = {name: value for name, value in os.environ.items() if name.lower() not in _OF_PROXIES}
        namespaces = AS_ROOT if os.geteuid() == 0 else AS_USER
        self._process = subprocess.Popen(
            [
                *namespaces,
                sys.executable,
                "-P",
                "-m",
                "stockade.attacks.internet",
                self._folder,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**own, "PYTHONPATH": paths},
            start_new_session=True,  # the campaign decides what Ctrl-C does
        )
        self._answer(_START_SECONDS)

    def attempt(self, order: dict[str, Any]) -> Any:
        """Return the answer to an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer(_TRIAL_SECONDS)

    def _answer(self, seconds: float) -> Any:
        stream: IO[bytes] | None = self._process.stdout
        assert stream is not None
        line = stream.readline() if select.select([stream], [], [], seconds)[0] else b""
        if not line:
            raise StageError(f"the small internet gave no answer within {seconds:g} s")
        return json.loads(line)

    def stop(self) -> None:
        """End the worker, and with it everything in its namespaces."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        places.remove(str(self._folder))


def attempt(order: dict[str, Any]) -> Any:
    """Have the worker try an attack, and return the trial as data. Raises ``StageError`` if the worker fails."""
    global _worker
    try:
        _worker = _worker or _Worker()
        return _worker.attempt(order)
    except (OSError, subprocess.SubprocessError, ValueError, StageError) as error:
        stop()
        raise StageError(f"the small internet: {error}") from error


def stop() -> None:
    """End the worker, if there is one."""
    global _worker
    ended, _worker = _worker, None
    if ended is not None:
        ended.stop()
