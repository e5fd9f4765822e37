"""The proxy's end of a socket to the run's caller: receives the secrets, and asks about names that are not listed."""

from __future__ import annotations

import _socket as socket
import _thread
import re
import time

from stockade.warden import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.targets import Target

    Entry = tuple[str, str, str, list[str]]
    """Name, placeholder and value of a secret, and its hosts as ``HOST:PORT``."""

QUESTION = re.compile(rb"([0-9]{1,3}) ([a-z0-9.-]{1,253}:[0-9]{1,5})\n")
"""What the proxy sends: a number, and a target."""
_ANSWER = re.compile(rb"([0-9]{1,3}) (yes|no)")
MOST_QUESTIONS = 64
"""Names about which one run may ask. All others are refused."""
_START_SECONDS = 5.0
_CHUNK = 1 << 16


class Broker:
    """Asks one question at a time, and remembers each answer."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        """``seconds`` is the time that an answer may take."""
        self._sock, self._seconds = sock, seconds
        self._lock = _thread.allocate_lock()
        self._answers: dict[str, bool] = {}
        self._buffer = b""

    def secrets(self) -> list[Entry]:
        """Return the secrets that the caller has sent. Raises ``OSError`` if they do not arrive in time."""
        decoder = protocol.Decoder()
        self._sock.settimeout(_START_SECONDS)
        while True:
            data = self._sock.recv(_CHUNK)
            if not data:
                raise OSError("the caller has closed its socket")
            for kind, fields in decoder.feed(data):
                if kind == "secrets":
                    return list(fields["entries"])

    def allows(self, target: Target) -> bool:
        """Return whether the caller allows ``target``; no answer in time means no."""
        name, due = str(target), time.monotonic() + self._seconds
        if not self._lock.acquire(timeout=self._seconds):
            return False
        try:
            if name not in self._answers:
                if len(self._answers) >= MOST_QUESTIONS:
                    return False
                self._answers[name] = self._ask(name, due)
            return self._answers[name]
        except OSError:
            return False  # the run is over
        finally:
            self._lock.release()

    def _ask(self, name: str, due: float) -> bool:
        number = b"%d" % len(self._answers)
        self._sock.settimeout(self._seconds)
        self._sock.sendall(b"%s %s\n" % (number, name.encode("ascii")))
        while True:
            line = self._line(due)
            found = _ANSWER.fullmatch(line)
            if found is None:
                return False
            if found[1] == number:  # otherwise the answer to an earlier question, which came too late
                return found[2] == b"yes"

    def _line(self, due: float) -> bytes:
        """Return the next line, empty if none comes in time."""
        while b"\n" not in self._buffer:
            left = due - time.monotonic()
            if left <= 0:
                return b""
            self._sock.settimeout(left)
            try:
                data = self._sock.recv(_CHUNK)
            except TimeoutError:
                return b""
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line
