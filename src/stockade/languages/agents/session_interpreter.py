"""An interpreter or shell of the session agent. See ``session_agent.py``.

Python 3.8 or newer, standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import time
from _socket import AF_UNIX, SOCK_STREAM, socketpair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stockade.languages.agents.session_agent import Agent
    from stockade.languages.agents.session_frames import Codec, Writer, frame, read_some, send_descriptors
    from stockade.languages.agents.session_processes import become, below, cpu_seconds, resident

_DRAINED = 1 << 20
"""The most bytes that are read after the end of a cell: more than a pipe holds, and still bounded."""
_KILL_SECONDS = 2.0
_START_ERROR = 4096
"""Bytes of standard error that are relayed while the interpreter starts."""
_CELL_FRAMES = b"dvxc"
_READ = ("stdout", "stderr", "answers")


class Interpreter:
    """Runs one cell at a time in a child process, and relays what the cell writes."""

    def __init__(self, agent: Agent, number: bytes) -> None:
        self.agent, self.number = agent, number
        self.codec: Any = None  # how the interpreter is spoken to
        self.start: dict[str, Any] = {}
        self.pid = 0
        self.pipes: dict[str, int] = {}
        self.writers: dict[str, Writer] = {}
        self.twin: Interpreter | None = None  # the copy that it was asked for
        self.token = ""  # of the running cell
        self.started = self.begun = self.interrupting = False
        self.left: dict[str, int] = {}
        self.omitted: dict[str, int] = {}
        self.used = 0.0

    def readable(self) -> list[tuple[str, int]]:
        """Return the descriptors that are still open, by name."""
        return [(name, self.pipes[name]) for name in _READ if name in self.pipes]

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        """Send a frame to the caller."""
        self.agent.send(kind, self.number + payload)

    def carry_out(self, kind: bytes, payload: bytes) -> None:
        """Do what the caller asks for."""
        if kind == b"S":
            self.start = json.loads(payload)
            self.launch()
        elif kind == b"R" and self.pid:
            self.run(json.loads(payload))
        elif kind == b"I" and self.token:
            self.interrupting = True
            self.interrupt()
        elif kind == b"K":
            self.end()
        elif kind == b"A" and self.token and self.pid:
            self.write("functions", len(payload).to_bytes(4, "big") + payload)
        elif kind == b"F" and self.pid:
            self.fork(payload)
        elif kind == b"C":
            self.end()
            self.agent.forget(self)

    def interrupt(self) -> None:
        """Interrupt the cell if it was asked for and the cell has begun."""
        if self.interrupting and self.begun:
            self.interrupting = False
            try:
                os.killpg(self.pid, signal.SIGINT)
            except OSError:
                pass

    def connect(self) -> list[int]:
        """Open the pipes to an interpreter, and return its ends.

        They are standard output and error, its answers, requests, and answers to its calls of functions.
        """
        theirs = []
        try:
            for name in _READ:
                self.pipes[name], writing = os.pipe()
                theirs.append(writing)
                os.set_blocking(self.pipes[name], False)
            own, other = socketpair(AF_UNIX, SOCK_STREAM)  # it passes on the descriptors of a copy
            self.pipes["requests"] = own.detach()
            theirs.append(other.detach())
            reading, self.pipes["functions"] = os.pipe()
            theirs.append(reading)
            self.writers = {name: Writer(self.pipes[name]) for name in ("requests", "functions")}
        except OSError:
            self.disconnect()
            close_all(theirs)
            raise
        return theirs

    def disconnect(self) -> None:
        """Close the pipes, and those of a copy that is not there yet."""
        close_all(self.pipes.values())
        self.pipes, self.writers = {}, {}
        if self.twin:
            self.twin.disconnect()
            self.twin = None

    def launch(self) -> None:
        """Start the interpreter. Its descriptors are pipes to the agent."""
        self.end(report=False)
        theirs: list[int] = []
        try:
            theirs = self.connect()
            self.pid = os.fork()
        except OSError as error:  # other interpreters took what the sandbox has: they go on
            close_all(theirs)
            self.disconnect()
            report = {"status": 0, "reason": f"the sandbox refused it: {error.strerror}"}
            self.send(b"!", json.dumps(report).encode())
            return
        if self.pid == 0:
            try:
                become(self.start, theirs, self.agent.descriptors())
            finally:
                os._exit(127)
        close_all(theirs)
        self.started, self.left = False, {"stderr": _START_ERROR}
        self.codec = Codec()
        if self.start["kind"] == "shell":
            space: dict[str, Any] = {"__name__": "stockade_shell"}
            exec(compile(self.start["agent"][0], "<stockade>", "exec", dont_inherit=True), space)
            self.codec = space["Shell"]()
        self.write("requests", self.codec.first)

    def fork(self, number: bytes) -> None:
        """Ask the interpreter for a copy of itself, which will speak over pipes of its own."""
        twin = Interpreter(self.agent, number)
        twin.start, twin.codec = self.start, Codec()
        try:
            theirs = twin.connect()
        except OSError as error:
            self.forked((error.strerror or "no descriptor is left").encode())
            return
        self.twin = twin
        self.write("requests", frame(b"F"))
        try:
            if self.writers["requests"].waiting:
                raise BlockingIOError
            send_descriptors(self.pipes["requests"], theirs)
        except OSError:
            self.write("requests", b"+")  # the interpreter waits for this byte, and refuses without descriptors
        finally:
            close_all(theirs)

    def forked(self, answer: bytes) -> None:
        """Take over the copy whose number it is, or close what was meant for it, and tell the caller."""
        twin, self.twin = self.twin, None
        refused = answer.decode("utf-8", "replace") or "it gave no reason"
        if twin and answer.isdigit():
            refused = "the copy has ended, or this Python lacks ctypes"
            known = {each.pid for each in self.agent.interpreters.values()}
            try:
                if int(answer) > 1 and int(answer) not in known and os.waitpid(int(answer), os.WNOHANG) == (0, 0):
                    twin.pid, refused = int(answer), ""
                    self.agent.interpreters[twin.number] = twin
            except (OSError, OverflowError):
                pass  # it is not a child of the agent
        if twin and refused:
            twin.disconnect()
        self.send(b"f", json.dumps({"refused": refused}).encode())

    def run(self, request: dict[str, Any]) -> None:
        """Begin a cell."""
        self.token = request["token"]
        self.begun, self.interrupting = not self.codec.tells_begin, False
        self.left, self.omitted = dict(request["limits"]), {}
        self.used = cpu_seconds(self.pid)
        self.write("requests", self.codec.request(request))

    def write(self, name: str, data: bytes) -> None:
        """Write to the interpreter."""
        if name in self.writers:
            self.writers[name].write(data)

    def relay(self, name: str) -> None:
        """Relay what one of the descriptors holds."""
        data = read_some(self.pipes[name])
        if data == b"":
            os.close(self.pipes.pop(name))
        if not data:
            return
        if name != "answers":
            self.output(name, data)
            return
        try:
            for kind, payload in self.codec.feed(data):
                self.answer(kind, payload)
        except ValueError:
            self.end(reason="it wrote what is not a frame to the agent's descriptor")

    def output(self, name: str, data: bytes) -> None:
        """Send output as far as the cell's limit allows, and count the rest."""
        kept = data[: self.left.get(name, 0)]
        if kept:
            self.left[name] -= len(kept)
            self.send(b"o" if name == "stdout" else b"e", kept)
        if len(kept) < len(data):
            self.omitted[name] = self.omitted.get(name, 0) + len(data) - len(kept)

    def answer(self, kind: bytes, payload: bytes) -> None:
        """Relay a frame of the interpreter."""
        if kind == b"h" and not self.started:
            self.started = True
            self.drain()  # what it wrote at its start belongs to no cell
            self.left = {}
            self.send(b"h", payload)
        elif kind == b"r" and self.token:
            self.begun = True
            self.interrupt()
        elif kind == b"." and self.token and payload == self.token.encode():
            self.finish()
        elif kind == b".":
            self.end(reason="it wrote a forged end of its cell")
        elif kind == b"f" and self.twin:
            self.forked(payload)
        elif kind == b"D":  # the cell waits: the pipes hold all that it wrote before, and nothing that it writes later
            self.drain()
            self.answer(b"d", payload)
            if self.pid and not self.writers["requests"].waiting:  # a guest that reads no answer gets no more of them
                self.write("requests", frame(b"a"))
        elif kind in _CELL_FRAMES and self.token:
            if kind == b"c":
                self.drain()  # the caller's function comes after the output that the cell wrote before the call
            if kind == b"d" and (self.left["displays"] <= 0 or self.left["display_bytes"] < len(payload)):
                self.omitted["displays"] = self.omitted.get("displays", 0) + 1
                return
            if kind == b"d":
                self.left["displays"] -= 1
                self.left["display_bytes"] -= len(payload)
            self.send(kind, payload)

    def finish(self) -> None:
        """End the cell: first relay the output that it wrote before its end."""
        self.drain()
        token, self.token = self.token, ""
        used, memory = cpu_seconds(self.pid) - self.used, resident(self.pid)
        report = {"token": token, "omitted": self.omitted, "cpu_seconds": round(used, 6), "memory": memory}
        self.left = {}
        self.send(b".", json.dumps(report).encode())

    def drain(self) -> None:
        """Relay what the output descriptors hold now."""
        for name in ("stdout", "stderr"):
            total = 0
            while name in self.pipes and total < _DRAINED:
                data = read_some(self.pipes[name])
                if not data:
                    break
                self.output(name, data)
                total += len(data)

    def ended(self, status: int, reason: str = "") -> None:
        """Clear up after the interpreter, kill what it left, and report its end."""
        self.drain()
        token = self.token
        self.kill_rest()
        report = {"token": token, "status": status, "reason": reason, "omitted": self.omitted}
        self.send(b"!", json.dumps(report).encode())

    def end(self, *, report: bool = True, reason: str = "") -> None:
        """Kill the interpreter and every process of its own."""
        if not self.pid:
            return
        kill_below(self)
        try:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
        except OSError:
            status = signal.SIGKILL
        if report:
            self.ended(status, reason)
        else:
            self.kill_rest()

    def kill_rest(self) -> None:
        """Forget the interpreter that has ended, and kill the processes that it left."""
        self.disconnect()
        kill_below(self)
        self.pid, self.token = 0, ""


def kill_below(interpreter: Interpreter) -> None:
    """Kill every process of an interpreter that is alive, and those that it left."""
    known = interpreter.agent.interpreters.values()
    others = {each.pid for each in known if each.pid and each is not interpreter}
    end = time.monotonic() + _KILL_SECONDS
    while (found := below(interpreter.pid, others)) and time.monotonic() < end:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.001)


def close_all(descriptors: Any) -> None:
    """Close descriptors."""
    for fd in descriptors:
        os.close(fd)
