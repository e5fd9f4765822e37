"""Keeps one interpreter or shell alive inside a sandbox, and relays between it and the caller.

The agent runs no guest code itself. The interpreter is its child, so the agent outlives a cell that ends the
interpreter, can interrupt or kill it, and reads the bytes that it writes. The kernel keeps the child out of the agent's
memory and descriptors (``PR_SET_DUMPABLE``), but both have one user: the caller trusts no frame. See ADR 68.

A frame is one byte for its kind, four bytes for its length (big-endian), and a payload.

From the caller: ``S`` start (JSON), ``R`` run (JSON), ``I`` interrupt, ``K`` kill, ``A`` answer to a call (JSON). To
the caller: ``h`` started, ``o`` and ``e`` output, ``d`` display, ``v`` value, ``x`` error, ``c`` call of a function of
the caller (JSON), ``.`` end of a cell (JSON), ``!`` the interpreter has ended (JSON). The interpreter also sends ``r``
when it begins a cell: before that, an interrupt would be lost. It sends ``D`` for a display if it waits for the answer
``a``.

Python 3.8 or newer, standard library only; it is copied into the sandbox as a whole.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_PIECE = 64 * 1024
_LONGEST_FRAME = 64 << 20
_DRAINED = 1 << 20
"""The most bytes that are read after the end of a cell: more than a pipe holds, and still bounded."""
_REAP_SECONDS = 2.0
_START_ERROR = 4096
"""Bytes of standard error that are relayed while the interpreter starts."""
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_REQUESTS, _ANSWERS = 198, 199
"""The descriptors that another program has to the agent."""
_CELL_FRAMES = b"dvxc"


def prctl(option: int, value: int) -> None:
    """Call ``prctl``, if this Python has ``ctypes``."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """Return one frame."""
    return kind + len(payload).to_bytes(4, "big") + payload


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``; wait while the descriptor is full."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select((), (fd,), ())


def read_some(fd: int) -> bytes | None:
    """Return what a descriptor holds, ``b""`` at its end, or ``None`` if it holds nothing now."""
    try:
        return os.read(fd, _PIECE)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the frames that ``data`` completes. Raises ``ValueError`` for a frame that is too long."""
        self._buffer += data
        found = []
        while len(self._buffer) >= 5:
            length = int.from_bytes(self._buffer[1:5], "big")
            if length > _LONGEST_FRAME:
                raise ValueError("a frame is too long")
            if len(self._buffer) < 5 + length:
                break
            found.append((bytes(self._buffer[:1]), bytes(self._buffer[5 : 5 + length])))
            del self._buffer[: 5 + length]
        return found


class Codec(Frames):
    """How an interpreter that knows frames is spoken to."""

    first = b""
    tells_begin = True

    def request(self, request: dict[str, Any]) -> bytes:
        """Return the bytes that begin a cell."""
        return frame(b"R", json.dumps(request).encode())


class Agent:
    """The loop: one interpreter, one cell at a time."""

    def __init__(self) -> None:
        self.caller_in, self.caller_out = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        os.set_blocking(self.caller_in, False)
        self.wake, wake = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        prctl(_PR_SET_DUMPABLE, 0)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self.requests = Frames()
        self.codec: Any = None  # how the interpreter is spoken to
        self.start: dict[str, Any] = {}
        self.pid = 0
        self.pipes: dict[str, int] = {}
        self.token = ""  # of the running cell
        self.started = self.begun = self.interrupting = False
        self.left: dict[str, int] = {}
        self.omitted: dict[str, int] = {}
        self.used = 0.0

    def serve(self) -> None:
        """Relay until the caller is gone."""
        poll = select.poll()
        while True:
            known = {self.caller_in: "caller", self.wake: "wake", **{fd: name for name, fd in self.readable()}}
            poll = select.poll()
            for fd in known:
                poll.register(fd, select.POLLIN)
            ready = {known[fd] for fd, _ in poll.poll()}
            if "caller" in ready and not self.from_caller():
                self.end(report=False)
                return
            for name in ("stdout", "stderr", "answers"):
                if name in ready and self.pid:
                    self.from_interpreter(name)
            if "wake" in ready:
                self.reap()

    def readable(self) -> list[tuple[str, int]]:
        """Return the interpreter's descriptors that are still open, by name."""
        return [(name, self.pipes[name]) for name in ("stdout", "stderr", "answers") if name in self.pipes]

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        """Send a frame to the caller."""
        write_all(self.caller_out, frame(kind, payload))

    def from_caller(self) -> bool:
        """Obey what the caller sent; return whether the caller is still there."""
        data = read_some(self.caller_in)
        if data is None:
            return True
        for kind, payload in self.requests.feed(data):
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
        return bool(data)

    def interrupt(self) -> None:
        """Interrupt the cell if it was asked for and the cell has begun."""
        if self.interrupting and self.begun:
            self.interrupting = False
            self.signal(signal.SIGINT)

    def signal(self, number: int) -> None:
        """Send a signal to the interpreter and the processes of its group."""
        try:
            os.killpg(self.pid, number)
        except OSError:
            pass

    def launch(self) -> None:
        """Start the interpreter. Its descriptors are pipes to the agent."""
        self.end(report=False)
        pairs = {name: os.pipe() for name in ("stdout", "stderr", "answers", "requests", "functions")}
        self.pid = os.fork()
        if self.pid == 0:
            try:
                become(self.start, pairs, (self.caller_in, self.caller_out, self.wake))
            finally:
                os._exit(127)
        for name, (reading, writing) in pairs.items():
            outgoing = name in ("requests", "functions")
            keep, drop = (writing, reading) if outgoing else (reading, writing)
            os.close(drop)
            self.pipes[name] = keep
            if not outgoing:
                os.set_blocking(keep, False)
        self.started, self.left = False, {"stderr": _START_ERROR}
        self.codec = Codec()
        if self.start["kind"] == "shell":
            space: dict[str, Any] = {"__name__": "stockade_shell"}
            exec(compile(self.start["agent"][0], "<stockade>", "exec", dont_inherit=True), space)
            self.codec = space["Shell"]()
        write_all(self.pipes["requests"], self.codec.first)

    def run(self, request: dict[str, Any]) -> None:
        """Begin a cell."""
        self.token = request["token"]
        self.begun, self.interrupting = not self.codec.tells_begin, False
        self.left, self.omitted = dict(request["limits"]), {}
        self.used = cpu_seconds(self.pid)
        self.write("requests", self.codec.request(request))

    def write(self, name: str, data: bytes) -> None:
        """Write to the interpreter."""
        try:
            write_all(self.pipes[name], data)
        except OSError:
            pass  # it has ended, and ``reap`` says so

    def from_interpreter(self, name: str) -> None:
        """Relay what one of the interpreter's descriptors holds."""
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
        elif kind == b"D":  # the cell waits: the pipes hold all that it wrote before, and nothing that it writes later
            self.drain()
            self.answer(b"d", payload)
            if self.pid and select.select((), (self.pipes["requests"],), (), 0)[1]:
                self.write("requests", frame(b"a"))
        elif kind in _CELL_FRAMES and self.token:
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

    def reap(self) -> None:
        """Collect ended children. If the interpreter is among them, say how it ended."""
        read_some(self.wake)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.ended(status)

    def ended(self, status: int, reason: str = "") -> None:
        """Clear up after the interpreter, kill what it left, and report its end."""
        self.drain()
        self.pid, token, self.token = 0, self.token, ""
        for fd in self.pipes.values():
            os.close(fd)
        self.pipes = {}
        kill_all()
        report = {"token": token, "status": status, "reason": reason, "omitted": self.omitted}
        self.send(b"!", json.dumps(report).encode())

    def end(self, *, report: bool = True, reason: str = "") -> None:
        """Kill the interpreter and every process below it."""
        if not self.pid:
            return
        self.signal(signal.SIGKILL)
        try:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
        except OSError:
            status = signal.SIGKILL
        if report:
            self.ended(status, reason)
            return
        self.pid, self.token = 0, ""
        for fd in self.pipes.values():
            os.close(fd)
        self.pipes = {}
        kill_all()


def become(start: dict[str, Any], pairs: dict[str, tuple[int, int]], own: tuple[int, ...]) -> NoReturn:
    """Turn this child process into the interpreter."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    prctl(_PR_SET_DUMPABLE, 1)
    for fd in own:
        os.close(fd)
    os.dup2(pairs["stdout"][1], 1)
    os.dup2(pairs["stderr"][1], 2)
    if start.get("folder"):
        os.chdir(start["folder"])
    os.environ.update(start.get("environment", {}))
    reading, writing = pairs["requests"][0], pairs["answers"][1]
    if start["kind"] == "python":
        python(start, reading, writing, pairs["functions"][0])
    os.dup2(reading, 0 if start["kind"] == "shell" else _REQUESTS, inheritable=True)
    os.dup2(writing, _ANSWERS, inheritable=True)
    os.execv(start["argv"][0], start["argv"])


def python(start: dict[str, Any], reading: int, writing: int, answers: int) -> NoReturn:
    """Run the agent of Python cells in this process, with a fresh ``__main__``."""
    space: dict[str, Any] = {"__name__": "stockade_cells", "__file__": "<stockade>", "__builtins__": __builtins__}
    try:
        for source in start["agent"]:
            exec(compile(source, "<stockade>", "exec", dont_inherit=True), space)
        names = start.get("functions")
        functions = (lambda cells: space["Functions"](cells, answers, names)) if names else id
        space["serve"](reading, writing, start["preload"], functions)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(1)


def kill_all() -> None:
    """Kill every descendant; new ones become children of this process when their parents end."""
    end = time.monotonic() + _REAP_SECONDS
    while time.monotonic() < end:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                pids = list(map(int, file.read().split()))
        except OSError:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its children that ended, or 0 without ``/proc``."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes, or 0 without ``/proc``."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


if __name__ == "__main__":
    Agent().serve()
