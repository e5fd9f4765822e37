"""The processes inside an instance before the guest's program: the init, and the process that becomes the guest.

The init is trusted, and PID 1 of the guest's namespace. The guest cannot kill it: no signal without a handler reaches
a namespace's init from inside (pid_namespaces(7)). The guest cannot ptrace it either: the init is not dumpable and lies
in a user namespace above the guest's. The init reads nothing that a guest has written.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import time

from stockade.core import trace
from stockade.core.launch import decode_steps
from stockade.core.record import Record
from stockade.linux import descendants, faults, processes, users
from stockade.linux.stage import Stage
from stockade.warden import protocol
from stockade.warden.cold import connector
from stockade.warden.cold.instance import COLLECT_FDS, LISTENER, PROXY_LISTENER, TERMINALS, send_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from _socket import socket
    from collections.abc import Sequence
    from typing import Any, NoReturn
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

SETUP_FAILED = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
CONTROL = 4
"""The descriptor of the control socket in a zygote."""
_INIT_GID = 65534  # not the guest's: a process with the same uid and gid could set the init's limits (prlimit(2))
_WARM_UP_LAUNCH = protocol.encode(
    "launch",
    steps=[["limits", {"rtprio": [0, 0]}]],
    argv=["argument"] * 99,
    environment={"name": "value"},
    channel=False,
    trace=0,
)
_EXECUTE = "execute the program"
_STEPS = {"init": "start the first process of the sandbox", "setup": "set up the process of the guest"}
_SANDBOX_ERRORS = (errno.EAGAIN, errno.ENOMEM)  # of execve(2): the sandbox's fault, not the command's


class Init(Record):
    """Everything that the processes of an instance need to know; they inherit it by fork."""

    privileged: bool
    parent: int
    """The pidfd of the spawner; the init dies with it."""
    lives: bool = False
    """Whether the init lives for many execs."""
    ends: Sequence[int]
    control: socket
    uid: int
    gid: int
    base: bytes = b""

    def run(self) -> NoReturn:
        """Run as the init; never return."""
        try:
            processes.close_all_but((2, self.parent, self.control.fileno(), *self.ends, *self._note_fds()))
            self._prepare()
            guest = os.fork()
            if guest == 0:
                self._become_guest()
            self._harden()
            self._send("ready")
            self._reap(guest)
        except BaseException as error:
            self._fail("init", error)
        os._exit(SETUP_FAILED)

    def _note_fds(self) -> Sequence[int]:
        """Return the descriptors for notes to the init, which must stay open."""
        return ()

    def _prepare(self) -> None:
        """Do the part of the set-up that init and guest share."""
        if self.privileged:
            return
        proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        users.map_identity(proc, 0, self.uid, 0, self.gid)
        os.close(proc)

    def _harden(self) -> None:
        for fd in (2, *self.ends):
            os.close(fd)
        self._give_up_privileges()

    def _give_up_privileges(self) -> None:
        processes.empty_bounding_set()
        if self.privileged:
            processes.become(self.uid, _INIT_GID)
        processes.set_dumpable(False)
        processes.no_new_privileges()
        processes.drop_capabilities()
        processes.die_with(self.parent)

    def _reap(self, guest: int) -> NoReturn:
        """Reap orphans until the guest ends, then kill and reap all other processes and report the end.

        The report does not wait for the init's own end. That end would make the kernel kill the other processes too.
        """
        # Warm up the report before it is urgent: the first write to a page after a fork copies the page.
        exit_message(0, resource.getrusage(resource.RUSAGE_SELF), self._measure("/"))
        while True:
            pid, status, usage = os.wait4(-1, 0)
            if pid == guest:
                break
        measured = self._measure("/tmp")
        self._end_all_others()
        self.control.sendall(exit_message(status, usage, measured))
        self.control.recv(1)  # exit only when the warden allows it: an exit now would delay the report on this CPU
        self._leave()

    def _leave(self) -> NoReturn:
        os._exit(0)

    def _measure(self, scratch: str) -> dict[str, Any]:
        """Return the parts of the report that only the init can measure: free space and free inodes."""
        try:
            disk = os.statvfs(scratch)
        except OSError:  # the process that becomes the guest ended before it made the folder
            return {"disk_free": None, "inodes_free": None}
        return {"disk_free": disk.f_bfree * disk.f_bsize, "inodes_free": disk.f_ffree}

    def _end_all_others(self) -> None:
        descendants.end_namespace()

    def _become_guest(self) -> NoReturn:
        try:
            os.close(self.parent)
            stage = self._stage()
            self._take_over_streams()  # first: descriptors that the stage opens must not get the streams' numbers
            stage.apply(decode_steps(self.base))
            self._warm_up(stage)
            self._send("set_up")
        except BaseException as error:
            self._fail("setup", error)
            os._exit(SETUP_FAILED)
        self._perform(stage)

    def _perform(self, stage: Stage) -> NoReturn:
        """Wait for the launch, apply it, and execute its command."""
        try:
            if stage.engine is not None:
                stage.engine.watch(self.control.fileno())
            fields = self._receive()
            trace.note(fields["trace"], trace.WOKEN)
            begin = time.process_time()
            stage.apply(fields["steps"])
            if stage.engine is not None:
                stage.engine.start()
            if not fields["channel"]:
                os.close(3)
            if fields.get("keeps_control"):
                os.dup2(self.control.fileno(), CONTROL, inheritable=True)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            usage = resource.getrusage(resource.RUSAGE_SELF)
            trace.note(fields["trace"], trace.APPLIED)
            spent = time.process_time() - begin
            peak, notes = usage.ru_maxrss * 1024, trace.take()
            own = {"pid": os.getpid(), "mark": stage.mark} if stage.mark else {}
            self._send("exec", at=time.monotonic(), cpu_seconds=spent, peak_memory=peak, notes=notes, **own)
            if "folder" in fields:
                self._enter(fields["folder"], fields["files"])
            stage.seal()
            if fields.get("port"):
                connector.connect(fields["port"])
            if stage.engine is not None:
                stage.engine.finish()
        except BaseException as error:
            self._fail("setup", error)
            os._exit(SETUP_FAILED)
        self._execute(fields["argv"], fields["environment"])

    def _enter(self, folder: str, files: dict[int, str]) -> None:
        """Start in ``folder``, with ``files`` in the place of streams. Earlier execs may have put anything there."""
        path = folder
        try:
            os.chdir(folder)
            for number, path in files.items():
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY | os.O_CLOEXEC, 0o644)
                os.dup2(fd, number, inheritable=True)
        except OSError as error:
            self._fail("exec", OSError(error.errno, f"{faults.shown(path)}: {error.strerror}"))
            os._exit(NOT_EXECUTABLE)

    def _stage(self) -> Stage:
        uid, gid = (self.uid, self.gid) if self.privileged else (0, 0)
        return Stage(
            uid=uid,
            gid=gid,
            privileged=self.privileged,
            supervise=self._send_listener,
            hand_out=self._send_collect_fds,
            offer=self._send_proxy_listener,
            hand_terminals=self._send_terminals,
            lives=self.lives,
        )

    def _receive(self) -> dict[str, Any]:
        decoder = protocol.Decoder()
        while data := self.control.recv(1 << 16):
            for _, fields in decoder.feed(data):
                return fields
        os._exit(0)  # the warden closed the socket of an unused instance

    def _warm_up(self, stage: Stage) -> None:
        """Apply a sample launch ahead of demand, because each first execution costs page faults."""
        for _, fields in protocol.Decoder().feed(_WARM_UP_LAUNCH):
            begin = time.process_time()
            stage.apply(fields["steps"])
            usage = resource.getrusage(resource.RUSAGE_SELF)
            spent = time.process_time() - begin
            protocol.encode("exec", at=time.monotonic(), cpu_seconds=spent, peak_memory=usage.ru_maxrss * 1024)
            try:
                os.execve("", fields["argv"], fields["environment"])
            except OSError:
                pass

    def _take_over_streams(self) -> None:
        # Move each end up first: it may have the very number that another end needs.
        moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in self.ends]
        for number, fd in enumerate(moved):
            os.dup2(fd, number, inheritable=True)
        for fd in (*self.ends, *moved):
            if fd > 3:
                os.close(fd)
        processes.close_on_exec_from(4)

    def _execute(self, argv: list[str], environment: dict[str, str]) -> NoReturn:
        try:
            _exec_on_path(argv, environment)
        except MemoryError:  # the limits are in force, and Python finds no memory for the arguments of execve
            none = OSError(errno.ENOMEM, "execve, under its limits with no memory for arguments and environment")
            self._fail("setup", faults.explained(_EXECUTE, none))
            os._exit(SETUP_FAILED)
        except BaseException as error:
            number = getattr(error, "errno", None)
            if number in _SANDBOX_ERRORS:
                self._fail("setup", faults.explained(_EXECUTE, error))
                os._exit(SETUP_FAILED)
            reason = os.strerror(number) if number and number != errno.ENOENT else _missing(argv[0])
            self._fail("exec", OSError(number, f"{faults.shown(argv[0])}: {reason}"))
            os._exit(NOT_FOUND if number in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE)

    def _send_listener(self, listener: int) -> None:
        self._send_with(LISTENER, [listener])

    def _send_collect_fds(self, fds: Sequence[int]) -> None:
        self._send_with(COLLECT_FDS, fds)

    def _send_proxy_listener(self, listener: int) -> None:
        self._send_with(PROXY_LISTENER, [listener])

    def _send_terminals(self, folder: int) -> None:
        self._send_with(TERMINALS, [folder])

    def _send_with(self, kind: str, fds: Sequence[int]) -> None:
        send_with(self.control, protocol.encode(kind), fds)

    def _send(self, kind: str, **fields: Any) -> None:
        self.control.sendall(protocol.encode(kind, **fields))

    def _fail(self, kind: str, error: BaseException) -> None:
        is_explained = kind == "exec" or isinstance(error, faults.Explained)
        text = getattr(error, "strerror", "") if is_explained else faults.explain(_STEPS[kind], error)
        try:
            self._send(f"{kind}_failed", message=text, errno=getattr(error, "errno", None))
        except OSError:
            os._exit(SETUP_FAILED)


def _exec_on_path(argv: list[str], environment: dict[str, str]) -> NoReturn:
    """Do the same as execvpe(3). ``os.execvpe`` would import a module from a file system that is now the guest's."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, environment)
    found: OSError | None = None
    for folder in environment.get("PATH", os.defpath).split(":"):
        try:
            os.execve(f"{folder or '.'}/{argv[0]}", argv, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            found = found or error
    raise found or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _missing(program: str) -> str:
    """Return why ``program`` counts as missing: the kernel also says so of a file whose interpreter is missing."""
    if "/" in program and os.access(program, os.F_OK):
        return "its interpreter (on the line #!) or its loader is not in the sandbox"
    return "command not found"


def exit_message(status: int | None, usage: resource.struct_rusage, measured: dict[str, Any]) -> bytes:
    """Return the report that all guest processes are gone. ``status`` is ``None`` if the reaper killed the guest."""
    return protocol.encode(
        "exit",
        status=status,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_memory=usage.ru_maxrss * 1024,
        at=time.monotonic_ns(),
        **measured,
    )
