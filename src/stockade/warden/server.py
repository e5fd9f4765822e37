"""The warden process: takes runs from its caller, gives each a cell, and ends with the caller."""

from __future__ import annotations

import _socket as socket
import gc
import os
import resource
import sys
import time

from stockade import _probe
from stockade._launch import Launch
from stockade.linux import cgroups, processes
from stockade.warden import cell as cells
from stockade.warden import loop, wire
from stockade.warden.cell import Cell
from stockade.warden.leases import DEFAULT_RANGE, Leases, parse_range
from stockade.warden.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
    from functools import partial
    from typing import Any
else:
    import _signal as signal  # the ``signal`` module imports ``enum``
    from _functools import partial

_SPARES = 4  # at most, of different bases
_COLLECT_EVERY = 512


class Warden:
    """One caller's warden. Its only state is the runs and what is kept ready for the next."""

    def __init__(self, control: socket.socket, caller: int, facts: dict[str, Any]) -> None:
        """``caller`` is the caller's pidfd; ``facts`` is what the probe found."""
        self._control = control
        self._loop = loop.Loop()
        self._self = os.pidfd_open(os.getpid())
        self._privileged = bool(facts["privileged"])
        self._hierarchies = [
            cgroups.Hierarchy(version=item[0], path=item[1], controllers=item[2]) for item in facts["hierarchies"]
        ]
        self._tree: cgroups.Tree | None = None
        self._leases: Leases | None = None
        self._runs: set[Run] = set()
        self._spares: list[Cell] = []
        self._served = 0
        self._ending = False
        self._loop.watch(control.fileno(), loop.READ, self._on_control)
        self._loop.watch(caller, loop.READ, self._on_caller_death)

    def serve(self) -> None:
        """Serve until the caller is gone; then kill and reap everything that was started for it."""
        try:
            while not self._ending:
                now = time.monotonic()
                due = min((run.tick(now) for run in list(self._runs)), default=float("inf"))
                self._loop.turn(None if due == float("inf") else due - time.monotonic())
        finally:
            self._clean_up()

    # -- what a run needs --------------------------------------------------------------------------------------

    def start(self, run: Run, launch: Launch, raw: bytes) -> None:
        """Find a cell for ``run``, a spare one if it fits, and prepare the next."""
        try:
            held = self._take_cell(launch)
        except (OSError, ValueError) as error:
            run.refuse(f"no cell could be made: {error}")
            return
        try:
            run.adopt(held, launch, raw)
        except OSError as error:
            run.refuse(f"limits could not be set: {error}")
        if launch.own_network and launch.host_uid is None:
            self._prepare_spare(launch.base)

    def release(self, cell: Cell) -> None:
        """Take back what a dead cell held."""
        if cell.group is not None and self._tree is not None:
            self._tree.give_back(cell.group)
        if cell.uid is not None and self._leases is not None and cell.leased:
            self._leases.give_back(cell.uid)

    def done(self, run: Run) -> None:
        """Forget ``run``."""
        self._runs.discard(run)
        self._served += 1
        if self._served % _COLLECT_EVERY == 0:
            gc.collect()

    # -- cells -------------------------------------------------------------------------------------------------

    def _take_cell(self, launch: Launch) -> Cell:
        if launch.own_network and launch.host_uid is None:
            for spare in self._spares:
                if spare.base == launch.base:
                    self._spares.remove(spare)
                    self._loop.forget(spare.control.fileno())
                    self._loop.forget(spare.pidfd)
                    return spare
        return self._make_cell(launch.base, own_network=launch.own_network, host_uid=launch.host_uid)

    def _make_cell(self, base: Sequence[Any], *, own_network: bool = True, host_uid: int | None = None) -> Cell:
        uid, group = host_uid, None
        leased = self._privileged and host_uid is None
        if leased:
            self._leases = self._leases or Leases(parse_range(os.environ.get("STOCKADE_UID_RANGE", DEFAULT_RANGE)))
            uid = self._leases.take()
        try:
            if self._hierarchies:
                self._tree = self._tree or cgroups.Tree(self._hierarchies, os.urandom(8).hex())
                group = self._tree.take()
            made = cells.make(
                privileged=self._privileged,
                warden=self._self,
                own_network=own_network,
                uid=uid,
                group=group,
                base=base,
            )
        except OSError:
            if group is not None and self._tree is not None:
                self._tree.give_back(group)
            if leased and uid is not None and self._leases is not None:
                self._leases.give_back(uid)
            raise
        made.leased = leased
        made.base = base
        return made

    def _prepare_spare(self, base: Sequence[Any]) -> None:
        """Have a cell ready for the next run of the same kind; the oldest makes room."""
        if any(spare.base == base for spare in self._spares):
            return
        if len(self._spares) >= _SPARES:
            self._spares[0].kill()
        try:
            spare = self._make_cell(base)
        except (OSError, ValueError):  # no room for a spare; the run that needs a cell will say why
            return
        self._spares.append(spare)
        self._loop.watch(spare.control.fileno(), loop.READ, partial(self._on_spare, spare))
        self._loop.watch(spare.pidfd, loop.READ, partial(self._discard, spare))

    def _on_spare(self, spare: Cell, _events: int) -> None:
        """A spare says that it is ready, once; anything else makes it unusable."""
        try:
            data = spare.control.recv(1 << 12, socket.MSG_DONTWAIT)
            messages = [kind for kind, _ in wire.Decoder().feed(data)]
        except (OSError, wire.WireError):
            messages = []
        if messages == ["ready"] and not spare.ready:
            spare.ready = True
        else:
            spare.kill()

    def _discard(self, spare: Cell, _events: int) -> None:
        self._spares.remove(spare)
        self._loop.forget(spare.control.fileno())
        self._loop.forget(spare.pidfd)
        os.waitpid(spare.init, 0)
        spare.close()
        self.release(spare)

    # -- the caller --------------------------------------------------------------------------------------------

    def _on_control(self, _events: int) -> None:
        try:
            data, fds = _receive_descriptors(self._control)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if data == wire.NEW_RUN and not fds:
            return  # no descriptor was free for it: the caller reads an end-of-file, and says so
        if data != wire.NEW_RUN:
            self._ending = True
            return
        sock = socket.socket(fileno=fds[0])
        sock.setblocking(False)
        self._runs.add(Run(self._loop, sock, self))

    def _on_caller_death(self, _events: int) -> None:
        self._ending = True

    def _clean_up(self) -> None:
        living = [run.cell for run in self._runs if run.cell is not None] + self._spares
        for cell in living:
            cell.kill()
        for cell in living:
            os.waitpid(cell.init, 0)
            self.release(cell)
        if self._tree is not None:
            self._tree.close()


def main(control_fd: int, caller_pid: int) -> None:
    """Serve the caller ``caller_pid`` on the socket ``control_fd``."""
    try:
        caller = os.pidfd_open(caller_pid)
    except ProcessLookupError:
        return
    if os.getppid() != caller_pid:
        return  # the caller died before it could be watched
    os.setsid()
    os.chdir("/")
    os.umask(0o022)
    processes.default_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    control = socket.socket(fileno=control_fd)
    facts = _probe.probe()
    control.sendall(wire.encode("hello", facts=facts))
    gc.collect()
    gc.freeze()  # a fork copies what a collection touches
    gc.disable()
    Warden(control, caller, facts).serve()


def _receive_descriptors(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Return one byte and the descriptors that came with it (unix(7), SCM_RIGHTS)."""
    flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    data, ancillary, _, _ = sock.recvmsg(1, socket.CMSG_SPACE(4), flags)
    fds = [
        int.from_bytes(content[:4], sys.byteorder)
        for level, kind, content in ancillary
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS
    ]
    return data, fds
