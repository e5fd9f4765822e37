"""Starting wardens: one for each process that calls, so a caller that forks gets one of its own."""

from __future__ import annotations

import atexit
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from stockade._errors import SetupError
from stockade._facts import HostFacts
from stockade._loading import removed
from stockade.client import reaping
from stockade.linux import faults
from stockade.warden import wire

_PROGRAM = Path(wire.__file__).with_name("__main__.py")
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_START = "start the warden"
_IDLE = 16  # sockets kept for the next runs


class Line:
    """A socket to the warden for one run. Leaving the context ends the run, unless all was said and done."""

    def __init__(self, warden: WardenProcess, sock: socket.socket, said: Mapping[str, Any]) -> None:
        self._warden = warden
        self.sock = sock
        self.said = said
        """What the warden was told of the last launch over this socket."""
        self.settled = False
        """Set by whoever held a conversation to its end: the socket can serve another run."""

    def __enter__(self) -> Line:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the socket back."""
        self._warden.take_back(self)


class WardenProcess:
    """A running warden and the socket to it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
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
        """Whether it still runs."""
        return self._process.poll() is None

    def facts(self) -> HostFacts:
        """Return what the warden found on this host; waits for its first word."""
        with self._lock:
            if self._facts is None:
                self._facts = HostFacts.from_probe(self._hello())
            return self._facts

    def line(self) -> Line:
        """Return a line to the warden for one run; a context manager."""
        return self.idle() or Line(self, self._connect(), {})

    def idle(self) -> Line | None:
        """Return one over which there was a run before, if there is any."""
        try:
            return Line(self, *self._idle.pop())
        except IndexError:
            return None

    def take_back(self, line: Line) -> None:
        """Keep a line's socket for the next run, or close it."""
        if self._owner != os.getpid():
            line.sock.close()  # the run goes on in the parent of this process
        elif line.settled and len(self._idle) < _IDLE:
            if line.sock.gettimeout() is not None:  # asyncio had it
                line.sock.setblocking(True)
            self._idle.append((line.sock, line.said))
        else:
            with suppress(OSError):
                line.sock.shutdown(socket.SHUT_RDWR)  # a process that was forked meanwhile holds a copy
            line.sock.close()

    def _connect(self) -> socket.socket:
        ours, theirs = _pair()
        try:
            with self._lock:
                socket.send_fds(self._control, [wire.NEW_RUN], [theirs.fileno()])
        except OSError as error:
            ours.close()
            end_if_exiting()
            raise SetupError(faults.explain("ask the warden for a run", error)) from error
        finally:
            theirs.close()
        return ours

    def stop(self) -> None:
        """End the warden; it kills and reaps what it started."""
        self._hang_up()
        try:
            self._process.wait(_STOP_SECONDS)
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
        decoder = wire.Decoder()
        self._control.settimeout(_START_SECONDS)
        try:
            while data := self._control.recv(1 << 16):
                for kind, fields in decoder.feed(data):
                    if kind == "hello":
                        self._control.settimeout(None)
                        reaping.reap(self.pid)
                        return dict(fields["facts"])
                    if kind == "failed":
                        raise SetupError(fields["message"])
        except (OSError, wire.WireError) as error:
            end_if_exiting()
            raise SetupError(faults.explain(f"{_START}: wait {_START_SECONDS:.0f} s for its answer", error)) from error
        end_if_exiting()
        raise SetupError(
            f"{_START}: {_interpreter()} -I -S {_PROGRAM} {self._how_it_ended()} before it answered; standard error of "
            f"this process has what it said: give it what it lacked (memory, descriptors, its standard library)"
        )

    def _how_it_ended(self) -> str:
        status = self._process.wait(_STOP_SECONDS)
        if status >= 0:
            return f"ended with exit status {status}"
        return f"was ended by {signal.Signals(-status).name}"


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
            _current.stop()  # it is dead; this closes our end of its socket
            _current = None
        if _current is None:
            _current = WardenProcess()
        return _current


def idle_line() -> Line | None:
    """Return a line to this process's warden over which there was a run before, if there is any; its other end may be
    gone."""
    return None if _current is None else _current.idle()


def host_facts() -> HostFacts:
    """Return what this host offers, found once by trying and kept for the life of the process."""
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
