"""The execution of a guest that descends from the warden: a process of an instance in a cgroup slot."""

from __future__ import annotations

import errno
import os
import time

from stockade.core import trace
from stockade.linux import faults, tree
from stockade.warden import loop, protocol
from stockade.warden.cold.instance import COLLECT_FDS, LISTENER, PROXY_LISTENER
from stockade.warden.handover import Handover
from stockade.warden.helper_liveness import Helper
from stockade.warden.proxy.handle import ProxyHandle
from stockade.warden.run import execution as requests
from stockade.warden.run.guest_processes import GuestProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial
    from typing import Any

    from stockade.core.launch import Launch
    from stockade.linux.cgroups import Group
    from stockade.linux.tree import Sample
    from stockade.warden.cold.cgroup_slot import CgroupSlot
    from stockade.warden.cold.instance import Instance
    from stockade.warden.owner import RunOwner
    from stockade.warden.run.execution import Callbacks
else:
    from _functools import partial  # ``functools`` imports half a dozen modules

_CHUNK = 1 << 16
_DEAF_SECONDS = 0.5
"""An init that has closed its control socket must be dead after this time; otherwise the socket has failed."""
GUEST_TO_BE = "the process that becomes the guest"


class SlotExecution:
    """A guest in an instance, cold or warm. The pool of a warm worker watches the worker's socket and pidfd."""

    _callbacks: Callbacks

    def __init__(
        self, events: loop.Guarded, owner: RunOwner, slot: CgroupSlot, launch: Launch, broker: int = -1
    ) -> None:
        """Connect the parts, without a system call. ``broker`` is a descriptor for the run's proxy, or -1."""
        self._broker = broker
        assert slot.instance is not None
        self._loop, self._owner, self._slot, self._launch = events, owner, slot, launch
        self._instance: Instance = slot.instance
        self.lasting = self._instance.lasting
        # A reaper's guests may outlive it. A living sandbox has execs, and a proxy has a socket of the dead network.
        self.may_start_again = not (launch.without_namespaces or launch.lives or launch.proxy)
        self.head = self._instance.init
        self.name = f"the sandbox's init (pid {self.head})"
        self.own_tasks = slot.own_tasks
        self.group: Group | None = slot.group
        self.uid = slot.uid
        self.streams = self._instance
        self.proxy: ProxyHandle | None = None
        self._processes = GuestProcesses(self.head, launch.watch.engine_tasks, partial(owner.freezer, slot))
        self._helper = Helper(self.head, "the sandbox's init", time.monotonic())
        self._silent_since = float("inf")
        self._decoder = protocol.Decoder()
        self._handover = Handover(events, self._instance, self._on_control)

    @property
    def collect_fds(self) -> list[int]:
        """Descriptors of the folder to collect, and of the list of files copied into it."""
        return self._instance.collect_fds

    @property
    def setup_state(self) -> str:
        """The step that a slow set-up waits for, as a clause for messages."""
        ready = self._instance.ready
        step = "the guest's process did not begin its program" if ready else "its init was not ready"
        return f"{step} (init: pid {self.head})"

    def start(self, callbacks: Callbacks) -> None:
        """Hand over the launch if the instance is ready, and listen."""
        self._callbacks = callbacks
        if self._instance.ready:
            self._hand_over()  # before all else: the guest's process wakes up meanwhile
        callbacks.on_listener(self._instance.take_listener())
        if not self.lasting:
            self._loop.watch(self._instance.pidfd, loop.READ, self._on_init_death)
            self._handover.listen()

    def take_stdin(self) -> int:
        """Return the write end of the guest's standard input."""
        return self._instance.take_stdin()

    def _hand_over(self) -> None:
        self._callbacks.on_handing_over()
        try:
            self.proxy = _way_out(self._loop, self._owner, self._instance, self._launch, self._broker)
            self._slot.arm(self._launch.groups)
            trace.note(self._launch.trace, trace.HANDED_OVER)
            self._handover.send(self._slot.order(self._launch))
        except OSError as error:
            self._callbacks.on_trouble(faults.explain("hand the run over to the process that becomes its guest", error))

    # -- requests ----------------------------------------------------------------------------------------------

    def control(self, request: str, number: int = 0) -> bool:
        """Carry out a request. Return ``False`` if it must be repeated after a moment."""
        if request == requests.SIGNAL:
            return self._processes.signal(number)
        if request == requests.PAUSE:
            return self._processes.pause()
        if request == requests.RESUME:
            self._processes.resume()
        elif request == requests.KILL:
            self._instance.kill()
            self._processes.thaw()
        elif request == requests.END_GUEST:
            self._instance.end_guest()
            self._processes.thaw()
        elif request == requests.KILL_AT_ONCE:
            self._instance.kill_at_once()
        return True

    # -- reports of the instance's processes -------------------------------------------------------------------

    def _on_control(self, events: int) -> bool:
        """Read the control socket, and conclude at the end of the guest. Return whether more may come."""
        if events & loop.WRITE:
            self._handover.go_on()
        more = self.poll()
        return not self._callbacks.conclude_if_ended() and more

    def poll(self) -> bool:
        """Read reports of the instance's processes. Return whether more may come."""
        try:
            data = self._instance.receive(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.forget(self._instance.control.fileno())
            if not self.lasting:
                self._silent_since = min(self._silent_since, time.monotonic())
                self._callbacks.mark_due()
            return False
        for kind, fields in self._decoder.feed(data):
            self._on_report(kind, fields)
        return True

    def _on_report(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == LISTENER:
            self._on_listener()
        elif kind in (COLLECT_FDS, PROXY_LISTENER):
            if not self._instance.accept_message(kind):
                purpose = "the folder to collect from" if kind == COLLECT_FDS else "the proxy's listener"
                self._callbacks.on_trouble(f"no descriptor was free for {purpose}")
        elif self._instance.accept_message(kind):
            if self._instance.ready:
                self._hand_over()
        elif kind == "exec":
            self._callbacks.on_started(fields)
        elif kind == "exit":
            self._callbacks.on_exit(fields)
        elif kind.endswith("_failed"):
            self._callbacks.on_failed(kind.removesuffix("_failed"), fields["message"])

    def _on_listener(self) -> None:
        if self._instance.accept_message(LISTENER):
            self._callbacks.on_listener(self._instance.take_listener())
        else:
            self._callbacks.on_trouble("no descriptor was free for the listener of the system-call filter")

    def _on_init_death(self, _events: int) -> None:
        self._loop.forget(self._instance.pidfd)
        self._callbacks.on_death()

    # -- measurements ------------------------------------------------------------------------------------------

    def sample(self, bound: int | None) -> Sample:
        """Return memory, CPU time and tasks below the init, from /proc."""
        return tree.sample(self.head, bound)

    def check(self, now: float, *, starting: bool) -> float:
        """Fail a run whose init, or guest's process, does not work any more. Return when to check again."""
        if now >= self._silent_since + _DEAF_SECONDS:
            self._callbacks.on_trouble(f"the control socket of {self.name} failed, or was shut down")
            return now
        still_since = self._callbacks.meter.still_since
        if now >= self._helper.due(still_since):
            trouble = self._helper.trouble(now, child=GUEST_TO_BE if starting else "")
            if trouble:
                self._callbacks.on_trouble(trouble)
        return min(self._helper.due(still_since), self._silent_since + _DEAF_SECONDS)

    def standing_still(self) -> str:
        """Return the name of an init that a stop signal holds, or an empty text."""
        return self._helper.standing_still()

    def tasks(self) -> int | None:
        """Return the number of the guest's tasks, or ``None`` if no group counts tasks."""
        return self._slot.tasks()

    def holds_one(self) -> bool:
        """Return whether the guest has no process but its first one, dead or alive; ``False`` if unknown."""
        return self._slot.holds_one()

    def measure(self) -> dict[str, Any]:
        """Return the measurements of the end that the warden itself makes."""
        return self._instance.see()

    # -- the end -----------------------------------------------------------------------------------------------

    def dismiss(self) -> None:
        """Take no more reports, and end the instance; its init's death follows."""
        self._loop.forget(self._instance.control.fileno())
        self._instance.dismiss()

    def release(self) -> None:
        """Close the instance, which is dead or lasts, and give back the slot."""
        self._loop.forget(self._instance.control.fileno())
        self._instance.close()
        self._owner.release(self._slot)


def _way_out(
    events: loop.Guarded, owner: RunOwner, instance: Instance, launch: Launch, broker: int
) -> ProxyHandle | None:
    """Return the handle of a proxy at the listener that ``instance`` has made, if the launch wants one."""
    if launch.proxy is None:
        return None
    if instance.proxy_listener < 0:
        raise OSError(errno.EBADF, "the sandbox has made no listener for its proxy")
    own_broker = os.dup(broker) if broker >= 0 else -1
    return ProxyHandle(events, launch.proxy, instance.take_proxy_listener(), owner, own_broker)
