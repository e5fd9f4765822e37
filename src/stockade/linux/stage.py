"""Apply the steps between fork and exec: one small loop carries out the list of a launch, in its order.

The order has these reasons:

 1. ``cgroup_namespace``  makes the groups in which the process was born the root of its view of groups.
 2. ``root``      mounts a new root and pivots into it, so that the host's ``/tmp`` remains available as a source.
 3. ``bind``, ``link``, ``file``, ``folder``, ``scratch``, ``hostname``, ``loopback``, ``proxy_listener``
    need capabilities, or what they made.
 4. ``proc``      puts a read-only mount over a writable one. Ids are mapped through the lower mount, and the guest
    sees the upper one. ``low_ports`` writes through the lower one as well.
 5. ``leave_host``  detaches the old root when no step needs a source any more; then comes ``seal_root``.
 6. ``identity``  takes on a uid that is not root's, enters a user namespace that owns nothing, and drops capabilities.
 7. ``landlock``  comes after the last mount, since a restricted process cannot mount; then one of the filters.
 8. ``job_file``  writes what differs from job to job. It can come this late, through a descriptor kept for it.
 9. ``limits``    comes last: no other step works under a limit of one process or few bytes.

In an instance without namespaces, the list begins with ``session``. Then ``place``, ``folder`` and ``file`` follow,
while files can still be given to the guest. Then come ``become``, and the steps from 7 on. Steps that hand something to
an engine (``data``, ``status``) come before ``become``. ``engine_mounts`` comes after it, and what fills these mounts.
``engine`` takes the ``limits`` before it. What the engine is to run comes last, with ``engine_job``.

In workers, ``cgroup_namespace``, ``proc_again`` and ``still`` belong to the worker, which is PID 1 of a PID namespace.
``GuestMounts`` carries out the steps for the mounts of its guests: ``scratch``, ``job_mount``, ``terminals``, ``chdir``
and ``landlock``. The process that becomes a guest takes ``own_ipc`` and then the steps from 6 on. ``GuestSetup`` has
prepared the first of them, up to the filter, as system calls. ``warden/warm`` describes all of these.
"""

from __future__ import annotations

import os

from stockade.core.launch import JOB_SOURCE
from stockade.linux import faults, landlock, mounts
from stockade.linux import limits as rlimits
from stockade.linux.seccomp import install as seccomp
from stockade.linux.steps.host import HostSteps
from stockade.linux.steps.root import RootSteps
from stockade.linux.steps.warm import WarmSteps
from stockade.linux.steps.workspace import WorkspaceSteps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


WARM_UP_FILE = ".warm_up"
"""The file of a source that a worker runs before its first job, to warm up; see ``warden/warm/worker``."""


class Stage(RootSteps, WorkspaceSteps, HostSteps, WarmSteps):
    """Applies steps: those of its base classes, and the last steps, which every kind of instance takes."""

    def apply(self, steps: Sequence[Sequence[Any]]) -> None:
        """Apply ``steps``; an ``OSError`` names the step that failed."""
        for name, *arguments in steps:
            step: Callable[..., None] = getattr(self, f"do_{name}")
            try:
                step(*arguments)
            except Exception as error:
                raise faults.explained(f"step {name} ({faults.arguments(arguments)})", error) from None

    def report_to(self, supervise: Callable[[int], None]) -> None:
        """Continue in a fork, as the process of one exec. ``supervise`` passes its filter's listener to the warden."""
        self._supervise = supervise

    def remember_limits(self) -> None:
        """Cache the current rlimits before forking, so that children need not query them."""
        self._ceilings = rlimits.ceilings()
        self._present = rlimits.prepare(rlimits.present(), self._ceilings)

    def prepare_template(self, steps: Sequence[Sequence[Any]]) -> str:
        """Prepare the ``steps`` that a process forked from this one will most likely take.

        Return the name of the source's file in the job's folder.
        """
        self.apply([step for step in steps if step[0] == "limits"])
        self._template_limits, self._limits = self._limits, []
        self._template_steps = [step for step in steps if step[0] != "limits"]
        self._source_at = next(at for at, step in enumerate(self._template_steps) if step[0] == JOB_SOURCE)
        _, name = self._template_steps[self._source_at]
        self._template_steps[self._source_at] = ("job_file", name)
        return str(name)

    def apply_template(self, source: bytes) -> None:
        """Apply the prepared steps with this ``source``; an ``OSError`` names the step that failed."""
        self._limits = self._template_limits
        self._template_steps[self._source_at] = (*self._template_steps[self._source_at], source)
        self.apply(self._template_steps)

    def seal(self) -> None:
        """Set the limits that the ``limits`` step has computed; only execve may come after."""
        rlimits.apply(self._limits)

    def warm_up(self, source: bytes) -> str:
        """Apply steps like those of a launch; ``end_warm_up`` undoes their changes.

        Return the name of the file in the job's folder that holds the ``source``.
        """
        name, _ = self._source_file
        self.apply([("job_file", name or WARM_UP_FILE, source)])
        return name or WARM_UP_FILE

    def end_warm_up(self) -> None:
        """Undo the changes of ``warm_up``."""
        rlimits.apply(self._present)
        name, fd = self._source_file
        if name:
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
        else:
            os.unlink(WARM_UP_FILE, dir_fd=self._job)

    def do_landlock(self, ruleset: dict[str, Any], exact: Sequence[str] = ()) -> None:
        """Give up every right to files, and every way to processes outside, that the ruleset does not name.

        The ``exact`` paths are opened without following symbolic links: a guest may be planting one right now.
        """
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        opened = {path: mounts.open_beneath(root, path, follow=False) for path in exact}
        landlock.restrict(landlock.Ruleset.from_json(ruleset), opened=opened)
        for fd in (root, *opened.values()):
            os.close(fd)

    def do_filter(self, program: bytes) -> None:
        """Load the system-call filter, which allows the calls of the last steps."""
        seccomp.install(program)

    def do_listening_filter(self, program: bytes) -> None:
        """Load a filter that asks the warden about refusals, and hand over its listener at once.

        Until then nobody would answer, and the guest must never hold the listener.
        """
        listener = seccomp.install_with_listener(program)
        if self._supervise is not None:
            self._supervise(listener)
        os.close(listener)

    def do_limits(self, wanted: dict[str, Sequence[int]]) -> None:
        """Compute the limits now; ``seal`` sets them after the last step."""
        self._limits = rlimits.prepare({name: (soft, hard) for name, (soft, hard) in wanted.items()}, self._ceilings)
