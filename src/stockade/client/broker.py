"""The caller's end of a socket to the proxy of one run: hands over secrets, and answers questions about names.

The warden passes the socket on and reads nothing of it. So no other process than the proxy of the run gets a secret.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from stockade.core import log, targets
from stockade.core.errors import JobError
from stockade.runs.secret import Secret, placeholder
from stockade.warden import protocol
from stockade.warden.proxy.broker import MOST_QUESTIONS, QUESTION

OnAsk = Callable[[str], bool]
_JOIN_SECONDS = 0.2
_LONGEST_LINE = 400


class Broker:
    """A context manager. It ends with the run."""

    def __init__(self, secrets: Mapping[str, Secret], on_ask: OnAsk | None) -> None:
        """Hand over ``secrets``. ``on_ask`` is called in a thread with each ``HOST:PORT`` that is not listed."""
        entries: list[Any] = [
            (name, placeholder(name), secret.reveal(), list(secret.hosts)) for name, secret in secrets.items()
        ]
        self._on_ask = on_ask
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._hand_over(protocol.encode("secrets", entries=entries))
        self._thread = threading.Thread(target=self._answer_all, name="stockade-on-ask", daemon=True)

    def _hand_over(self, message: bytes) -> None:
        """Send ``message`` at once: nobody reads before the guest's first connection, so the buffer must hold it."""
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(message))
        try:
            sent = self._ours.send(message, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        if sent < len(message):
            self._ours.close()
            self.theirs.close()
            raise JobError(f"secrets: values and hosts take {len(message)} bytes together; name fewer of them")

    def __enter__(self) -> Broker:
        """Begin to answer."""
        if self._on_ask is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close both ends. A hook that is still asking somebody keeps its thread until it returns."""
        self.theirs.close()
        with suppress(OSError):  # the proxy has closed its end
            self._ours.shutdown(socket.SHUT_RDWR)
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)
        self._ours.close()

    def _answer_all(self) -> None:
        """Answer each question. What asks has parsed bytes of the guest, so each line is checked."""
        try:
            with self._ours.makefile("rb") as lines:
                for _ in range(MOST_QUESTIONS):
                    line = lines.readline(_LONGEST_LINE)
                    question = QUESTION.fullmatch(line)
                    if question is None:
                        return
                    answer = b"yes" if self._allows(question[2].decode("ascii")) else b"no"
                    self._ours.sendall(b"%s %s\n" % (question[1], answer))
        except (OSError, ValueError):
            return  # the run is over

    def _allows(self, text: str) -> bool:
        assert self._on_ask is not None
        try:
            target = targets.parse(text)
            return not target.address and self._on_ask(str(target)) is True
        except Exception as error:  # of the hook: what it cannot answer is refused
            log.info("on_ask failed for %s, which is refused: %r", text, error)
            return False
