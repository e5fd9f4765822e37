"""Starting wardens: one for each process that calls, so a caller that forks gets one of its own."""

from __future__ import annotations

import atexit
import errno
import fcntl
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

from stockade.client import reaping, run_slots
from stockade.client.connection import Connection
from stockade.client.liveness import Liveness
from stockade.client.run_slots import RunSlot
from stockade.core.errors import SetupError
from stockade.core.loading import removed
from stockade.linux import descendants, faults
from stockade.planning.facts import HostFacts
from stockade.warden import protocol

_PROGRAM = Path(protocol.__file__).with_name("__main__.py")
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_START = "start the warden"
_RETIRED_SECONDS = 0.5
_MOMENT_SECONDS = 0.2
"""From the end of a process's sockets to its own."""
_GONE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)
_IDLE = 16  # sockets kept for the next runs


class WardenGoneError(SetupError):
    """The warden is gone, and a new one may do."""


class WardenProcess:
    """A running warden and the socket to it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._ended = ""
        """Why it was killed, if it was."""
        self._lost = False
        self._facts: HostFacts | None = None
        self._owner = os.getpid()
        self._idle: list[tuple[socket.socket, Mapping[str, Any]]] = []
        _check_program()
        self._control, theirs = _pair()
        command = [_interpreter(), "-I", "-S", str(_PROGRAM), str(theirs.fileno()), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=_environment(),
                cwd="/",
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
        """Whether it still runs, and can be spoken to."""
        return not (self._ended or self._lost) and self._process.poll() is None and not self._is_hung_up()

    def _is_hung_up(self) -> bool:
        """Return whether the other end of the control socket is closed: a warden that is dying can be found so before
        it can be reaped. It says nothing on that socket after its first word."""
        if self._facts is None:
            return False
        return _has_ended(self._control)

    @property
    def is_stopped(self) -> bool:
        """Whether a stop signal holds it."""
        return self._process.returncode is None and descendants.is_stopped(self.pid)

    def end_now(self, why: str) -> None:
        """Kill it, and with it, by the kernel's doing, all that it started: it does not do its work any more."""
        with self._ending:
            if not self._ended:
                self._ended = why
                self._process.kill()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_STOP_SECONDS)

    def why_gone(self) -> str:
        """Return why a conversation with it has ended too early."""
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
        """Return what the warden found on this host; waits for its first word."""
        with self._lock:
            if self._facts is None:
                self._facts = HostFacts.from_probe(self._hello())
            return self._facts

    def connect(self) -> Connection:
        """Return a line to the warden for one run; a context manager."""
        return self.idle() or Connection(self, self._connect(), {})

    def idle(self) -> Connection | None:
        """Return one over which there was a run before, if there is any."""
        while True:
            try:
                sock, remembered = self._idle.pop()
            except IndexError:
                return None
            if not _has_ended(sock):
                return Connection(self, sock, remembered)
            sock.close()

    def take_back(self, connection: Connection) -> None:
        """Keep a line's socket for the next run, or close it."""
        if self._owner != os.getpid():
            connection.sock.close()  # the run goes on in the parent of this process
        elif connection.reusable and len(self._idle) < _IDLE:
            if connection.sock.gettimeout() is not None:  # asyncio had it
                connection.sock.setblocking(True)
            self._idle.append((connection.sock, connection.remembered))
        else:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)  # a process that was forked meanwhile holds a copy
            connection.sock.close()

    def _connect(self) -> socket.socket:
        ours, theirs = _pair()
        liveness = Liveness(self)
        try:
            while not self._sent(theirs.fileno()):
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

    def _sent(self, fd: int) -> bool:
        try:
            socket.send_fds(self._control, [protocol.NEW_RUN], [fd], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False  # it has many to take before
        return True

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """End the warden; it kills and reaps what it started, and is killed itself if it takes longer."""
        self._hang_up()
        if self.is_stopped:
            self._process.kill()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def abandon(self) -> None:
        """Forget it without touching it: it belongs to the parent of this process."""
        self._hang_up()
        self._process.returncode = 0  # or the interpreter would warn about, and wait for, another's child

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
        self.end_now(f"it was not there after {_START_SECONDS:.0f} s")
        raise WardenGoneError(self.why_gone())

    def _ended_at_start(self) -> WardenGoneError:
        end_if_exiting()
        if self._ended:
            return WardenGoneError(self.why_gone())
        return WardenGoneError(
            f"{_START}: {_interpreter()} -I -S {_PROGRAM} {self._how_it_ended()} before it answered; standard error of "
            f"this process has what it said: give it what it lacked (memory, descriptors, its standard library)"
        )

    def _how_it_ended(self) -> str:
        status = self._process.wait(_STOP_SECONDS)
        if status >= 0:
            return f"ended with exit status {status}"
        return f"was ended by {signal.Signals(-status).name}"


def _has_ended(sock: socket.socket) -> bool:
    """Return whether the other end of ``sock`` is closed, where it has nothing to say now."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return two joined sockets, neither on the number of a standard stream: the warden's are laid over those.

    Raises ``SetupError`` if no descriptor is free.
    """
    made: list[socket.socket] = []
    pair: tuple[socket.socket, ...] = ()
    try:
        pair = socket.socketpair()
        for end in pair:
            made.append(socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3)))
    except OSError as error:
        for end in made:
            end.close()
        raise SetupError(faults.explain("make a socket to the warden", error)) from error
    finally:
        for end in pair:
            end.close()
    ours, theirs = made
    ours.setblocking(True)  # whatever the caller has made the default (socket.setdefaulttimeout)
    return ours, theirs


_current: WardenProcess | None = None
_guard = threading.Lock()
_exiting = False


def end_if_exiting() -> None:
    """End the calling thread without a word, if it is a daemon thread of a process that exits: its warden is gone."""
    if _exiting and threading.current_thread().daemon:
        raise SystemExit


def current() -> WardenProcess:
    """Return this process's warden, started if there is none or the last one died."""
    global _current
    end_if_exiting()
    with _guard:
        if _current is not None and not _current.alive:
            _current.stop(_RETIRED_SECONDS)  # it is dead, or ends since it cannot be spoken to
            _current = None
        if _current is None:
            _current = WardenProcess()
        return _current


def connect(place: RunSlot | None = None) -> Connection:
    """Return a line to this process's warden for one run; to a new one if the last one turns out to be gone. ``place``
    is the room for it, for which others wait."""
    end_if_exiting()
    place = place or run_slots.slots.enter()
    try:
        found = _line()
    except BaseException:
        place.leave()
        raise
    found.place = place
    return found


def _line() -> Connection:
    try:
        return current().connect()
    except WardenGoneError:
        return current().connect()


def idle_connection() -> Connection | None:
    """Return a line to this process's warden over which there was a run before, if there is any; its other end may be
    gone."""
    found = None if _current is None else _current.idle()
    if found is not None:
        found.place = run_slots.slots.enter_at_once()
    return found


def host_facts() -> HostFacts:
    """Return what this host offers, found once by trying and kept for the life of the process."""
    try:
        return current().facts()
    except WardenGoneError:
        return current().facts()


def _reap_after_fork() -> None:
    if _current is not None:  # or a child that was forked before has had none that it could leave behind
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
    # The real executable: in a virtual environment it is a link, behind a version manager it is not a shim.
    executable = getattr(sys, "_base_executable", None) or sys.executable
    if not executable:
        raise SetupError("this program has no Python executable to start a warden with (sys.executable is empty)")
    return str(Path(executable).resolve())


def _environment() -> dict[str, str]:
    wanted = ("STOCKADE_UID_RANGE", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in wanted if name in os.environ}
