"""Starting wardens: one for each process that calls, so a caller that forks gets one of its own."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from stockade._errors import SetupError
from stockade._facts import HostFacts
from stockade.warden import wire

_PROGRAM = Path(wire.__file__).with_name("__main__.py")
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0


class WardenProcess:
    """A running warden and the socket to it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._facts: HostFacts | None = None
        self._control, theirs = socket.socketpair()
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
            raise SetupError(f"the warden could not be started: {error}") from error
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

    def open_run(self) -> socket.socket:
        """Return a fresh socket for one run."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise SetupError(f"no socket could be made for the run: {error}") from error
        try:
            with self._lock:
                socket.send_fds(self._control, [wire.NEW_RUN], [theirs.fileno()])
        except OSError as error:
            ours.close()
            raise SetupError(f"the warden is gone: {error}") from error
        finally:
            theirs.close()
        return ours

    def stop(self) -> None:
        """End the warden; it kills and reaps what it started."""
        self._control.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def abandon(self) -> None:
        """Forget it without touching it: it belongs to the parent of this process."""
        self._control.close()
        self._process.returncode = 0  # or the interpreter would warn about, and wait for, another's child

    def _hello(self) -> dict[str, object]:
        decoder = wire.Decoder()
        self._control.settimeout(_START_SECONDS)
        try:
            while data := self._control.recv(1 << 16):
                for kind, fields in decoder.feed(data):
                    if kind == "hello":
                        self._control.settimeout(None)
                        return dict(fields["facts"])
        except (OSError, wire.WireError) as error:
            raise SetupError(f"the warden did not answer: {error}") from error
        raise SetupError(f"the warden ended at its start (exit status {self._process.wait(_STOP_SECONDS)})")


_current: WardenProcess | None = None
_guard = threading.Lock()


def current() -> WardenProcess:
    """Return this process's warden, started if there is none or the last one died."""
    global _current
    with _guard:
        if _current is not None and not _current.alive:
            _current.stop()  # it is dead; this closes our end of its socket
            _current = None
        if _current is None:
            _current = WardenProcess()
        return _current


def host_facts() -> HostFacts:
    """Return what this host offers, found once by trying and kept for the life of the process."""
    return current().facts()


def _forget_in_child() -> None:
    global _current, _guard
    _guard = threading.Lock()
    if _current is not None:
        _current.abandon()
        _current = None


def _stop_at_exit() -> None:
    if _current is not None:
        _current.stop()


os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(_stop_at_exit)


def _interpreter() -> str:
    # The real executable: in a virtual environment it is a link, behind a version manager it is not a shim.
    executable = getattr(sys, "_base_executable", None) or sys.executable
    if not executable:
        raise SetupError("this program has no Python executable to start a warden with (sys.executable is empty)")
    return str(Path(executable).resolve())


def _environment() -> dict[str, str]:
    wanted = ("STOCKADE_UID_RANGE", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in wanted if name in os.environ}
