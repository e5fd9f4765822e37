"""A real server in a process of its own, on a free port of the loopback."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from stockade.service.database import Database
from stockade.service.keys import Keys

PATIENCE = 60.0
_STARTED = re.compile(r"listening: http://(127\.0\.0\.1:\d+)")


class Served:
    """A server, and requests to it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self._options = folder, options
        self._log = folder.with_suffix(".log")
        self.start()
        found = re.search("e2b_[0-9a-f]{40}", self.output())
        assert found is not None, self.output()
        self.key = found[0]

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        with self._log.open("ab") as log:
            begun = log.tell()
            command = [sys.executable, "-m", "stockade", "serve", "--data", str(self.folder), "--port", "0"]
            self.process = subprocess.Popen(
                [*command, *self._options], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        wait_for(lambda: _STARTED.search(self.output()[begun:]) or self.process.poll() is not None)
        found = _STARTED.search(self.output()[begun:])
        assert found is not None, self.output()
        self.address = found[1]

    def output(self) -> str:
        """Return all that the server has printed."""
        return self._log.read_text()

    @property
    def worker(self) -> int:
        """The pid of the worker."""
        return self._child("stockade.service.worker")

    @property
    def front(self) -> int:
        """The pid of the process that faces the network."""
        return self._child("stockade.service.front")

    def _child(self, module: str) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = [child for child in children if module in Path(f"/proc/{child}/cmdline").read_text().split("\0")]
        assert len(found) == 1, children
        return int(found[0])

    def add_key(self, name: str) -> str:
        """Make another key."""
        database = Database(self.folder)
        try:
            return Keys(database).add(name)
        finally:
            database.close()

    def remove_key(self, name: str) -> None:
        """Remove a key."""
        database = Database(self.folder)
        try:
            Keys(database).remove(name)
        finally:
            database.close()

    def ask(
        self, method: str, path: str, body: Any = None, key: str | None = None, **headers: str
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        """Send a request with ``key``, or the first one; return status, parsed body and headers."""
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        sent = {"X-API-Key": self.key if key is None else key, "Content-Type": "application/json"}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, content, sent | {k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        kind = answer.headers.get_content_type()
        parsed = json.loads(text) if kind == "application/json" else text
        return answer.status, text.decode() if kind == "text/plain" else parsed, answer.headers

    def submit(self, body: Any, key: str | None = None) -> str:
        """Submit a run and return its id."""
        status, found, _ = self.ask("POST", "/v1/runs", body, key)
        assert status == 202, found
        return str(found["id"])

    def run(self, run: str, wait: float = 0) -> Any:
        """Return a run as the API shows it."""
        return self.ask("GET", f"/v1/runs/{run}?wait={wait}")[1]

    def end(self, number: int) -> int:
        """Send a signal to the server, and return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """End the server, however it is."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()


def wait_for(condition: Callable[[], Any]) -> None:
    """Wait until ``condition`` holds. Only a test that fails waits for long."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "nothing came of it in time"
        time.sleep(0.05)


def is_ready(service: Served) -> bool:
    """Return whether the service has answered, with a worker, since one of its processes was killed."""
    try:
        return service.ask("GET", "/readyz")[0] == 200
    except OSError:
        return False


def processes_with(word: str) -> list[str]:
    """Return the pids of all processes with an argument ``word``."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in place.read_bytes().split(b"\0"):
                found.append(place.parent.name)
    return found


def served(data: Path, *options: str) -> Iterator[Served]:
    """Yield a server over the folder ``data``, and end it. It must have failed in nothing that it did not expect."""
    made = Served(data, *options)
    yield made
    made.close()
    assert "Traceback" not in made.output()
