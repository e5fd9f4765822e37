"""The end of one execution: kills it, reads the rest of its output, collects its files, and answers the caller."""

from __future__ import annotations

import time

from stockade.core import trace
from stockade.core.report import Report
from stockade.linux import descendants, faults, standstill
from stockade.warden.run.collection import Collection, uid_for
from stockade.warden.run.execution import END_GUEST, KILL, KILL_AT_ONCE
from stockade.warden.run.phase import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from functools import partial

    from stockade.warden.run.supervision import Supervision
else:
    import _signal as signal  # the ``signal`` module imports ``enum``
    from _functools import partial  # ``functools`` imports half a dozen modules

_AGAIN_SECONDS = 0.1
"""How often to lift the CPU limit of processes that are being ended."""
_GENTLE_SECONDS = 0.5
"""The time that a worker has to end the processes of its guest before it is killed itself."""
_FEW_TASKS = 4
_DYING_SECONDS = 5.0
"""Processes that do not end in this time are killed at once. The caller gets an answer after twice as long."""


class Ending:
    """Ends one execution. The first cause stands."""

    def __init__(self, supervision: Supervision) -> None:
        self._supervision = supervision
        self._execution = supervision.execution
        self._run = supervision.run
        self.collection: Collection | None = None
        """The collector at work, after the guest's end."""
        self.guest_dead = False
        """Whether the kernel says that nothing of the guest is left."""
        self.patience = float("inf")
        """Until when a worker may take to end the processes of its guest."""
        self._dying_since = float("inf")
        """When the warden first ended the guest."""

    # -- killing -----------------------------------------------------------------------------------------------

    def kill(self, cause: str) -> None:
        """End the run for ``cause``, unless another cause came first. If only the collector is left, stop it."""
        run = self._run
        if run.phase >= Phase.CONCLUDING:
            if self.collection is not None:
                self.collection.stop(f"ended while files were brought out: {cause}")
            return
        run.cause = run.cause or cause
        self._supervision.watcher.mark_due()
        if run.phase < Phase.ENDED:  # after the guest's end, a worker would be killed for nothing
            self._dying_since = min(self._dying_since, time.monotonic())
            try:
                self._kill()
            except OSError:
                self._execution.control(KILL_AT_ONCE)

    def _kill(self) -> None:
        # Otherwise dying processes wait for their share of the CPU, and the one that ends them may run out of memory.
        self._unthrottle()
        if self._may_end_gently():
            self._execution.control(END_GUEST)
            self.patience = min(self.patience, time.monotonic() + _GENTLE_SECONDS)
        else:
            self._execution.control(KILL)
        self._supervision.control.release()

    def _may_end_gently(self) -> bool:
        """Return whether to kill only the guest's first process, and leave the others to the worker. The worker needs
        a turn on a processor for that, and many other processes would make it wait."""
        if not self._execution.lasting or self.patience < time.monotonic():
            return False
        tasks = self._execution.tasks()
        return tasks is not None and tasks <= _FEW_TASKS

    def _unthrottle(self) -> bool:
        group = self._execution.group
        return group is not None and group.unthrottle()

    def check_patience(self, now: float) -> None:
        """Kill a worker that has not ended the processes of its guest in time."""
        if self._run.cause is not None and self._execution.lasting and now >= self.patience:
            self.patience = float("inf")
            self._execution.control(KILL)

    def press(self, now: float) -> float:
        """Give dying processes the CPU that they need. Return when to do so again."""
        return min(self.patience, now + _AGAIN_SECONDS if self._unthrottle() else float("inf"))

    def enforce(self, now: float) -> float:
        """Kill at once what has not ended in time, and answer after twice as long. Return when to check again."""
        if now < self._dying_since + _GENTLE_SECONDS:
            return self._dying_since + _GENTLE_SECONDS
        held = self._surviving_kill()
        if held or now >= self._dying_since + 2 * _DYING_SECONDS:
            why = f": a freezer of cgroup v1 holds pid {held}, which dies when it is thawed" if held else ""
            self._run.fail(f"the run's processes could not be ended{why}")
            self.conclude()
            return 0.0
        # A frozen reaper hears only SIGKILL.
        if now >= self._dying_since + _DYING_SECONDS or self._execution.standing_still():
            self._execution.control(KILL_AT_ONCE)
            return self._dying_since + 2 * _DYING_SECONDS
        return self._dying_since + _DYING_SECONDS

    def _surviving_kill(self) -> int:
        """Return a process of the run that does not die before somebody thaws it, or 0."""
        head = self._execution.head
        return next((pid for pid in (head, *descendants.below(head)) if standstill.survives_kill(pid)), 0)

    def see_off(self, now: float) -> float:
        """Make sure that the instance ends as well, after the answer. Return when to check again."""
        if now >= self._dying_since + _DYING_SECONDS:
            self._execution.control(KILL_AT_ONCE)
            self._dying_since = now
        return self._dying_since + _DYING_SECONDS

    # -- concluding --------------------------------------------------------------------------------------------

    def conclude(self) -> None:
        """Collect files if any are wanted, and answer: no process of the guest is left, by the report of its init or by
        the kernel."""
        run, supervision = self._run, self._supervision
        if run.phase >= Phase.CONCLUDING:
            return
        supervision.meter.stop()
        known = run.cause
        supervision.output.take_output()  # the rest of it may exceed the limit, which is a cause
        if run.cause != known and supervision.completed is not None and supervision.exit is not None:
            supervision.exit["status"] = int(signal.SIGKILL)  # the real end, whatever the guest announced
        run.advance(Phase.CONCLUDING)
        try:
            self.collection = self._collect()
        except OSError as error:
            self._end_proxy(faults.explain("start the process that brings files out", error))
            return
        if self.collection is None:
            self._end_proxy("")

    def _collect(self) -> Collection | None:
        execution, launch = self._execution, self._supervision.launch
        if launch.collect is None or not self._supervision.meter.started:
            return None
        return Collection(
            self._run.loop,
            launch.collect,
            execution.collect_fds,
            uid_for(execution.uid if launch.host_uid is None else launch.host_uid),
            on_data=self._on_collected,
            on_end=self._end_proxy,
            dispose=self._run.owner.dispose,
        )

    def _on_collected(self, data: bytes) -> None:
        self._run.connection.send("collected", data=data)

    def _end_proxy(self, trouble: str) -> None:
        """Answer as soon as the proxy, if there is one, has given its account."""
        proxy = self._execution.proxy
        if proxy is None:
            self._answer(trouble)
        else:
            self._supervision.watcher.mark_due()
            proxy.finish(partial(self._answer, trouble))

    def _answer(self, trouble: str) -> None:
        """Make the final readings and send them. ``trouble`` is the reason why files are missing."""
        run, supervision = self._run, self._supervision
        run.phase = Phase.ANSWERED
        self._dying_since = time.monotonic()
        supervision.watcher.mark_due()
        try:
            self._send_report(trouble)
        except Exception as error:  # the caller must have its answer, even if something cannot be read
            run.connection.send("refused", last=True, message=faults.explain("read the end of the run", error))
        run.stdin.close()
        supervision.denials.close()
        supervision.output.close()
        if self.guest_dead or (self._execution.lasting and supervision.exit is not None):
            self.release()
        else:
            self._execution.dismiss()

    def _send_report(self, trouble: str) -> None:
        run = self._run
        self._supervision.output.take_report()
        report = self._report(trouble)
        run.owner.note(report.peak_memory, starved=bool(report.oom_outside))
        trace.note(run.traced, trace.ANSWERED)
        run.connection.send("exited", last=True, report=report.as_wire(), notes=trace.take() if run.traced else [])

    def _report(self, trouble: str) -> Report:
        run, supervision, proxy = self._run, self._supervision, self._execution.proxy
        return Report(
            **supervision.meter.report(supervision.exit, killed=run.cause is not None).as_dict(),
            cause=run.cause,
            failure=run.failure,
            collect_trouble=trouble,
            proxy=None if proxy is None else proxy.account,
            proxy_trouble="" if proxy is None else proxy.trouble,
            warm=self._execution.lasting,
            prewarmed=run.prewarmed or bool(supervision.launch.sandbox),
            cold="" if self._execution.lasting else run.cold,
            pending=supervision.pending,
            **supervision.output.report(),
            **supervision.denials.report(),
        )

    def release(self) -> None:
        """Give back the execution: its guest is dead, and nobody needs what it left."""
        self._run.release()
