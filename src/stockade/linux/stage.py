"""The steps between fork and exec: a launch's list is carried out here, in its order, in one small loop.

The order matters, and this is why it is what it is:

 1. ``cgroup_namespace``  the groups it was born in become the root of what it sees of them;
 2. ``root``      the new root is mounted and pivoted into, so that the host's ``/tmp`` is not hidden as a source;
 3. ``bind``, ``link``, ``file``, ``folder``, ``scratch``, ``hostname``, ``loopback``   while capabilities are there;
 4. ``proc``      a writable mount below a read-only one: ids are mapped through the lower, the guest sees the upper;
    ``low_ports`` is written through the lower as well;
 5. ``leave_host``  the old root is detached when no source is needed any more, and ``seal_root``;
 6. ``identity``  a uid that is not root's, then a user namespace that owns nothing, then no capability at all;
 7. ``landlock``   when nothing is mounted any more, since a restricted process cannot; then one of the filters;
 8. ``job_file``   what differs from job to job can come this late, through a descriptor kept for it;
 9. ``limits``    last: under a limit of one process or few bytes, nothing else could be done.

In a cell without namespaces: ``session``; ``place``, ``folder`` and ``file`` while they can still be given to the
guest; ``become``; then as from 7 on. What an engine is handed (``data``, ``status``) comes before ``become``.

In copies of a warm interpreter: ``cgroup_namespace`` and ``proc_again`` in the one that keeps a PID namespace; it lays
out the room of its guests by ``scratch``, ``job_room``, ``chdir`` and ``landlock``. The one that becomes a guest does
``own_ipc`` and then as from 6 on; but see ``warden/warm`` for all of these.
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
"""The file of a job that is run before there is any; see ``warden/warm/keeper``."""


class Stage(RootSteps, WorkspaceSteps, HostSteps, WarmSteps):
    """Carries out steps: those of the classes it is made of, and the last ones, which every kind of cell takes."""

    def apply(self, steps: Sequence[Sequence[Any]]) -> None:
        """Carry out ``steps``; an ``OSError`` names the step that failed."""
        for name, *arguments in steps:
            step: Callable[..., None] = getattr(self, f"do_{name}")
            try:
                step(*arguments)
            except Exception as error:
                raise faults.explained(f"step {name} ({faults.arguments(arguments)})", error) from None

    def remember_limits(self) -> None:
        """Take notice of the limits in force, for who is forked and sets the next ones: asking takes time."""
        self._ceilings = rlimits.ceilings()
        self._present = rlimits.prepare(rlimits.present(), self._ceilings)

    def prepare_template(self, steps: Sequence[Sequence[Any]]) -> str:
        """Work out what can be of the ``steps`` that a process forked from this one is most likely going to take.
        Return the name of the file in the job's folder that the source is to be in."""
        self.apply([step for step in steps if step[0] == "limits"])
        self._template_limits, self._limits = self._limits, []
        self._template_steps = [step for step in steps if step[0] != "limits"]
        self._source_at = next(at for at, step in enumerate(self._template_steps) if step[0] == JOB_SOURCE)
        _, name = self._template_steps[self._source_at]
        self._template_steps[self._source_at] = ("job_file", name)
        return str(name)

    def apply_template(self, source: bytes) -> None:
        """Carry out the steps that were foreseen, with this ``source``; an ``OSError`` names the step that failed."""
        self._limits = self._template_limits
        self._template_steps[self._source_at] = (*self._template_steps[self._source_at], source)
        self.apply(self._template_steps)

    def seal(self) -> None:
        """Set the limits that were worked out; only execve may come after."""
        rlimits.apply(self._limits)

    def warm_up(self, source: bytes) -> str:
        """Take steps like those of a launch, which change nothing that ``end_warm_up`` does not undo. Return the name
        of the file in the job's folder that the ``source`` is in."""
        name, _ = self._source_file
        self.apply([("job_file", name or WARM_UP_FILE, source)])
        return name or WARM_UP_FILE

    def end_warm_up(self) -> None:
        """Undo it."""
        rlimits.apply(self._present)
        name, fd = self._source_file
        if name:
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
        else:
            os.unlink(WARM_UP_FILE, dir_fd=self._job)

    def do_landlock(self, ruleset: dict[str, Any], exact: Sequence[str] = ()) -> None:
        """Give up every right to files, and every way to processes outside, that the ruleset does not name.

        The ``exact`` paths of it are not reached through any symbolic link: a guest may be planting one right now.
        """
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        opened = {path: mounts.open_beneath(root, path, follow=False) for path in exact}
        landlock.restrict(landlock.Ruleset.from_json(ruleset), opened=opened)
        for fd in (root, *opened.values()):
            os.close(fd)

    def do_filter(self, program: bytes) -> None:
        """Load the system-call filter; it lets through what the last steps need."""
        seccomp.install(program)

    def do_listening_filter(self, program: bytes) -> None:
        """Load a filter that asks about refusals, and hand its listener on at once: until that is done nobody
        would answer, and the guest must never hold it."""
        listener = seccomp.install_with_listener(program)
        if self._supervise is not None:
            self._supervise(listener)
        os.close(listener)

    def do_limits(self, wanted: dict[str, Sequence[int]]) -> None:
        """Work out the limits now; they are set after the last step."""
        self._limits = rlimits.prepare({name: (soft, hard) for name, (soft, hard) in wanted.items()}, self._ceilings)
