"""The warden process of this process: how it is started, connected to and ended. A forked caller gets its own."""

from __future__ import annotations

import atexit
import errno
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from stockade.client import killing, reaping, run_slots, sockets
from stockade.client.connection import Connection
from stockade.client.liveness import Liveness
from stockade.client.run_slots import RunSlot
from stockade.core.errors import SetupError
from stockade.core.loading import removed
from stockade.linux import faults, standstill
from stockade.planning.facts import HostFacts
from stockade.warden import protocol

_PROGRAM = Path(protocol.__file__).with_name("__main__.py")
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_START = "start the warden"
_RETIRED_SECONDS = 0.5
_MOMENT_SECONDS = 0.2
"""The time from the end of a process's sockets to the end of the process."""
_GONE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)
_IDLE = 16  # sockets kept for later runs


class WardenGoneError(SetupError):
    """The warden is gone; a new one may work."""


class WardenProcess:
    """A running warden and the socket to it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._ended = ""
        """The reason why this process killed it; empty if it did not."""
        self._lost = False
        self._facts: HostFacts | None = None
        self._owner = os.getpid()
        self._idle: list[tuple[socket.socket, Mapping[str, Any]]] = []
        _check_program()
        self._control, theirs = sockets.make_pair()
        command = [_interpreter(), "-I", "-S", str(_PROGRAM), str(theirs.fileno()), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=_environment(),
                cwd="/",
                start_new_session=True,  # Ctrl-C must not reach it, even while it starts
            )
        except OSError as error:
            self._control.close()
            raise SetupError(faults.explain(_START, error)) from error
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        """The warden's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the warden runs and can be reached."""
        return not (self._ended or self._lost) and self._process.poll() is None and not self._is_hung_up()

    def _is_hung_up(self) -> bool:
        """Return whether the warden has closed the control socket, which happens before a dying warden can be reaped.

        After its first message, the warden sends nothing on that socket, so a readable socket is a closed one.
        """
        return self._facts is not None and sockets.is_hung_up(self._control)

    @property
    def standstill(self) -> str:
        """Why the warden cannot go on now; empty if it can, or has ended."""
        return standstill.reason(self.pid) if self._process.returncode is None else ""

    @property
    def was_ended(self) -> bool:
        """Whether this process has killed the warden because it did not work any more."""
        return bool(self._ended)

    def end_now(self, why: str) -> None:
        """Kill a warden that does not work any more. The kernel ends everything that it started."""
        with self._ending:
            if not self._ended:
                self._ended = why
                killing.kill(self._process, self._control)

    def why_gone(self) -> str:
        """Return the reason why an exchange with the warden ended too early."""
        if self._ended:
            return f"the warden (pid {self.pid}) did not answer: {self._ended}"
        try:
            status = self._process.wait(_MOMENT_SECONDS)
        except subprocess.TimeoutExpired:
            return (
                f"the connection to the warden (pid {self.pid}) was closed in the middle of the run; the warden lives"
            )
        how = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        return f"the warden ended in the middle of the run: pid {self.pid} {how}"

    def facts(self) -> HostFacts:
        """Return what the warden found on this host. Waits for its first message."""
        with self._lock:
            if self._facts is None:
                self._facts = HostFacts.from_probe(self._hello())
            return self._facts

    def connect(self, broker: int = -1) -> Connection:
        """Return a connection to the warden for one run; a context manager. ``broker``: see ``connect``."""
        more = (broker,) if broker >= 0 else ()
        return (None if more else self.idle()) or Connection(self, self._connect(*more), {})

    def idle(self) -> Connection | None:
        """Return a connection that has served an earlier run; ``None`` if none is idle."""
        while True:
            try:
                sock, remembered = self._idle.pop()
            except IndexError:
                return None
            if not sockets.is_hung_up(sock):
                return Connection(self, sock, remembered)
            sock.close()

    def take_back(self, connection: Connection) -> None:
        """Keep the connection's socket for the next run, or close it."""
        if self._owner != os.getpid():
            connection.sock.close()  # the run continues in the parent of this process
        elif connection.reusable and len(self._idle) < _IDLE:
            if connection.sock.gettimeout() is not None:  # asyncio has used it
                connection.sock.setblocking(True)
            self._idle.append((connection.sock, connection.remembered))
        else:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)  # a process forked meanwhile may hold a copy
            connection.sock.close()

    def _connect(self, *more: int) -> socket.socket:
        ours, theirs = sockets.make_pair()
        liveness = Liveness(self)
        try:
            while not self._sent(theirs.fileno(), *more):
                liveness.wait(self._control, select.POLLOUT)
        except OSError as error:
            ours.close()
            end_if_exiting()
            self._lost = self._lost or error.errno in _GONE
            kind = WardenGoneError if self._lost else SetupError
            raise kind(faults.explain("ask the warden for a run", error)) from error
        finally:
            theirs.close()
        return ours

    def _sent(self, *fds: int) -> bool:
        try:
            socket.send_fds(self._control, [protocol.NEW_RUN], fds, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False  # the socket is full of earlier requests
        return True

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """End the warden, which kills and reaps everything it started. Kill it if that takes more than ``seconds``."""
        self._hang_up()
        if self._ended:
            return
        if self.standstill:
            killing.kill(self._process, self._control)
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            killing.kill(self._process, self._control)

    def abandon(self) -> None:
        """Forget the warden without touching it, because it belongs to the parent of this process."""
        self._hang_up()
        self._process.returncode = 0  # otherwise the interpreter warns about another process's child and waits for it

    def _hang_up(self) -> None:
        self._control.close()
        while self._idle:
            self._idle.pop()[0].close()

    def _hello(self) -> dict[str, object]:
        decoder, liveness = protocol.Decoder(), Liveness(self)
        until = time.monotonic() + _START_SECONDS
        try:
            while time.monotonic() < until:
                if not liveness.wait(self._control):
                    continue
                data = self._control.recv(1 << 16)
                if not data:
                    raise self._ended_at_start()
                for kind, fields in decoder.feed(data):
                    if kind == "hello":
                        reaping.reap(self.pid)
                        return dict(fields["facts"])
                    if kind == "failed":
                        raise SetupError(fields["message"])
        except (OSError, protocol.WireError) as error:
            end_if_exiting()
            raise WardenGoneError(faults.explain(f"{_START}: wait for its answer", error)) from error
        self.end_now(f"it had not answered {_START_SECONDS:.0f} s after its start")
        raise WardenGoneError(self.why_gone())

    def _ended_at_start(self) -> WardenGoneError:
        end_if_exiting()
        if self._ended:
            return WardenGoneError(self.why_gone())
        return WardenGoneError(
            f"{_START}: {_interpreter()} -I -S {_PROGRAM} {self._how_it_ended()} before it answered; standard error of "
            f"this process has its message: provide what it lacked (memory, descriptors, its standard library)"
        )

    def _how_it_ended(self) -> str:
        status = self._process.wait(_STOP_SECONDS)
        if status >= 0:
            return f"ended with exit status {status}"
        return f"was ended by {signal.Signals(-status).name}"


_current: WardenProcess | None = None
_guard = threading.Lock()
_exiting = False


def end_if_exiting() -> None:
    """End the calling thread silently if it is a daemon thread of an exiting process, whose warden is gone."""
    if _exiting and threading.current_thread().daemon:
        raise SystemExit


def current() -> WardenProcess:
    """Return this process's warden. Start one if none was started yet, or if the last one died."""
    global _current
    end_if_exiting()
    with _guard:
        if _current is not None and not _current.alive:
            _current.stop(_RETIRED_SECONDS)  # dead, or about to end because it cannot be reached
            _current = None
        if _current is None:
            killing.reap_late()
            _current = WardenProcess()
        return _current


def connect(slot: RunSlot | None = None, broker: int = -1) -> Connection:
    """Return a connection to this process's warden for one run, or to a new warden if the last one is gone.

    ``slot`` is the run slot; without it, the call waits for one. ``broker``: a descriptor for its proxy or port, or -1.
    """
    end_if_exiting()
    slot = slot or run_slots.slots.enter()
    try:
        found = _new_connection(broker)
    except BaseException:
        slot.leave()
        raise
    found.slot = slot
    return found


def _new_connection(broker: int) -> Connection:
    try:
        return current().connect(broker)
    except WardenGoneError:
        return current().connect(broker)


def idle_connection() -> Connection | None:
    """Return a connection to this process's warden that has served an earlier run; ``None`` if none is idle.

    The warden may be gone all the same.
    """
    found = None if _current is None else _current.idle()
    if found is not None:
        found.slot = run_slots.slots.enter_at_once()
    return found


def host_facts() -> HostFacts:
    """Return the facts about this host, which the warden found by trying. They are kept until the process ends."""
    try:
        return current().facts()
    except WardenGoneError:
        return current().facts()


def _reap_after_fork() -> None:
    if _current is not None:  # without a warden, an earlier forked child cannot have left one behind
        reaping.reap(_current.pid)


def _forget_in_child() -> None:
    global _current, _guard
    _guard = threading.Lock()
    if _current is not None:
        _current.abandon()
        _current = None


def _stop_at_exit() -> None:
    global _exiting
    _exiting = True
    if _current is not None:
        _current.stop()


os.register_at_fork(after_in_parent=_reap_after_fork, after_in_child=_forget_in_child)
atexit.register(_stop_at_exit)


def _check_program() -> None:
    if not _PROGRAM.is_file():
        raise removed(_START)


def _interpreter() -> str:
    # The real executable: it is a link in a virtual environment, and a shim behind a version manager.
    executable = getattr(sys, "_base_executable", None) or sys.executable
    if not executable:
        raise SetupError("this program has no Python executable to start a warden with (sys.executable is empty)")
    return str(Path(executable).resolve())


def _environment() -> dict[str, str]:
    wanted = ("STOCKADE_UID_RANGE", "LD_LIBRARY_PATH", "SSL_CERT_FILE")
    return {name: os.environ[name] for name in wanted if name in os.environ}
