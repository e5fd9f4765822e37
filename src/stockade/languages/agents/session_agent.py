"""Keeps interpreters or one shell alive inside a sandbox, and relays between them and the caller.

The agent runs no guest code itself. An interpreter is its child, so the agent outlives a cell that ends the
interpreter, can interrupt or kill it, and reads the bytes that it writes. The kernel keeps the child out of the agent's
memory and descriptors (``PR_SET_DUMPABLE``), but both have one user: the caller trusts no frame. See ADR 68.

A frame is one byte for its kind, four bytes for its length (big-endian), and a payload. Between caller and agent, the
payload begins with the two bytes of an interpreter's number; the first interpreter has 0, and its forks have others.

From the caller: ``S`` start (JSON), ``R`` run (JSON), ``I`` interrupt, ``K`` kill, ``A`` answer to a call (JSON),
``F`` fork (the new number), ``C`` close. To the caller: ``h`` started, ``o`` and ``e`` output, ``d`` display, ``v``
value, ``x`` error, ``c`` call of a function of the caller (JSON), ``.`` end of a cell (JSON), ``!`` the interpreter has
ended (JSON), ``f`` forked or refused (JSON), ``z`` closed. The interpreter also sends ``r`` when it begins a cell:
before that, an interrupt would be lost. It sends ``D`` for a display if it waits for the answer ``a``, and answers
``F`` by ``f`` with the process number of its copy, or with the reason for a refusal.

Python 3.8 or newer, standard library only. It is sent into the sandbox with the other ``session_`` files before it.
"""

from __future__ import annotations

import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.languages.agents.session_frames import Frames, Writer, frame, read_some
    from stockade.languages.agents.session_interpreter import Interpreter
    from stockade.languages.agents.session_processes import isolate_self

_MOST_WAITING = 1 << 20
"""Bytes for the caller that may wait here. With more, the agent reads nothing from the interpreters."""


class Agent:
    """The loop between the caller and the interpreters."""

    def __init__(self) -> None:
        self.caller_in, self.caller_out = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        os.set_blocking(self.caller_in, False)
        self.wake, self.waker = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self.waker, False)
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        isolate_self()
        self.requests, self.writer = Frames(), Writer(self.caller_out)
        self.interpreters: dict[bytes, Interpreter] = {}

    def descriptors(self) -> list[int]:
        """Return all descriptors of the agent, which no interpreter may have."""
        known = list(self.interpreters.values())
        pipes = [fd for each in (*known, *(each.twin for each in known)) if each for fd in each.pipes.values()]
        return [self.caller_in, self.caller_out, self.wake, self.waker, *pipes]

    def serve(self) -> None:
        """Relay until the caller is gone."""
        while True:
            poll = select.poll()
            known = {fd: (each, name) for each in self.interpreters.values() for name, fd in each.readable()}
            if len(self.writer.waiting) > _MOST_WAITING:
                known = {}
            writers = [writer for each in self.interpreters.values() for writer in each.writers.values()]
            full = {writer.fd: writer for writer in (self.writer, *writers) if writer.waiting}
            for fd in (self.caller_in, self.wake, *known):
                poll.register(fd, select.POLLIN)
            for fd in full:
                poll.register(fd, select.POLLOUT)
            ready = [fd for fd, _ in poll.poll()]
            for fd in full.keys() & ready:
                full[fd].write()
            if self.caller_in in ready and not self.from_caller():
                for each in list(self.interpreters.values()):
                    each.end(report=False)
                return
            for fd in ready:
                interpreter, name = known.get(fd, (None, ""))
                if interpreter is not None and interpreter.pipes.get(name) == fd:
                    interpreter.relay(name)
            if self.wake in ready:
                self.reap()

    def send(self, kind: bytes, payload: bytes) -> None:
        """Send a frame to the caller."""
        self.writer.write(frame(kind, payload))

    def from_caller(self) -> bool:
        """Obey what the caller sent; return whether the caller is still there."""
        data = read_some(self.caller_in)
        if data is None:
            return True
        for kind, payload in self.requests.feed(data):
            number = payload[:2]
            if kind == b"S" and number not in self.interpreters:
                self.interpreters[number] = Interpreter(self, number)
            if number in self.interpreters:
                self.interpreters[number].carry_out(kind, payload[2:])
            elif kind == b"C":
                self.send(b"z", number)
        return bool(data)

    def forget(self, interpreter: Interpreter) -> None:
        """Drop an interpreter that the caller has closed."""
        del self.interpreters[interpreter.number]
        interpreter.send(b"z")

    def reap(self) -> None:
        """Collect ended children, and say of an interpreter how it ended."""
        read_some(self.wake)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for each in self.interpreters.values():
                if pid == each.pid:
                    each.ended(status)


if __name__ == "__main__":
    Agent().serve()
