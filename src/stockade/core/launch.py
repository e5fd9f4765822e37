"""A launch: all that the warden needs to start, watch and end one run, as plain data."""

from __future__ import annotations

import marshal

from stockade.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Step = tuple[Any, ...]
    TemplateFields = tuple[tuple[str, ...], Mapping[str, str], bool, tuple[Step, ...]]
"""A step: the name of a method of ``linux.stage.Stage`` and its arguments: text, numbers, bytes, lists and mappings.
A form: command line, environment, whether there is a channel, and steps; all that a guest is told but the source."""

JOB_SOURCE = "job_source"
"""The step in the place of ``job_file``, without its content, where that is the launch's ``source``."""


def encode_steps(steps: tuple[Step, ...]) -> bytes:
    """Return steps as one piece, which is quickly compared and sent."""
    return marshal.dumps(steps, 4)


def decode_steps(data: bytes) -> tuple[Step, ...]:
    """Return what ``encode_steps`` was given."""
    steps: tuple[Step, ...] = marshal.loads(data)
    return steps


class Groups(Record):
    """The figures to write into the run's control groups; ``None`` leaves one alone."""

    memory: int | None = None
    swap: int | None = None
    processes: int | None = None
    cores: float | None = None
    io_read: int | None = None
    """Bytes a second, from each disk."""

    def with_tasks(self, more: int) -> Groups:
        """Return the same with room for so many tasks more, which are not the guest's."""
        return Groups(**self.as_dict() | {"processes": None if self.processes is None else self.processes + more})


class Watch(Record):
    """What the warden itself watches. Seconds and bytes; ``None`` is without limit."""

    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    output_bytes: int | None = None
    kill_on_output: bool = False
    sampled_memory: int | None = None
    """Bytes of the whole tree, watched by reading /proc: only where no control group bounds memory."""
    soft_memory: int | None = None
    """Bytes of the whole tree past which the caller is told, once."""
    own_network: bool = False
    """Whether the guest has a network namespace of its own, whose sockets count for its memory."""
    setup_seconds: float = 10.0
    engine_tasks: int = 0
    """Tasks in the run's control groups that belong to a program between the init and the guest: one below the other,
    each the only child of the one before."""
    own_tasks: int = 1
    """Tasks that the guest's interpreter needs for itself, its first included: what comes on top is the job's."""
    live: bool = False
    """Whether somebody reads along: that the program has begun is told at once, and so is all of its output up to
    the limit."""
    report_seconds: float | None = None
    """How often to tell what the run has used."""

    @property
    def other_tasks(self) -> int:
        """Tasks of the run that are not the job's."""
        return self.engine_tasks + self.own_tasks - 1


class Collect(Record):
    """What to bring out of the workspace when the last process is gone. Counts, bytes and seconds."""

    patterns: tuple[str, ...] = ()
    """Files to bring out, by path; see ``_patterns``."""
    everything: bool = False
    """Whether all that was made, changed or deleted is wanted."""
    overlaid: bool = False
    """Whether the folder is the upper one of an overlay file system, where deleted names are devices."""
    copied: bool = False
    """Whether a list of what was copied into the folder comes with it: the rest is what the run made."""
    own: bool = True
    """Whether the folder goes with the run, so that modes in it may be changed."""
    skip: tuple[str, ...] = ()
    """Paths to leave out, with all below them."""
    files: int = 1000
    file_bytes: int = 16 << 20
    total_bytes: int = 64 << 20
    names: int = 200_000
    depth: int = 64
    seconds: float = 20.0


class Warm(Record):
    """How an interpreter is kept warm for runs of one kind: what each of its processes does, as ``encode_steps`` gives
    it, and how the interpreter itself is started."""

    zygote: bytes
    """Steps of the cell in which the interpreter is started."""
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    slot: bytes
    """Steps of a copy of it that becomes the init of a PID namespace, in which guests run one after another."""
    network: bytes
    """Steps that bring up the network of such a namespace."""
    mounts: bytes
    """Steps that lay out what guests find there, until one has left a trace in it."""
    guest: bytes
    """Steps of a copy of that one, which becomes a guest: done ahead of demand."""

    def encode(self) -> bytes:
        """Return it as one piece, which is quickly compared and sent."""
        return marshal.dumps(self.as_dict(), 4)

    @classmethod
    def decode(cls, data: bytes) -> Warm:
        """Return what ``encode`` was given."""
        return cls(**marshal.loads(data))


_OF_ONE_RUN: Mapping[str, Any] = {"source": b"", "trace": 0}


def news(fields: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a launch's ``fields`` is not as in the one ``before``: most is the same for all runs of a kind."""
    if fields is before:
        return {}
    return {name: value for name, value in fields.items() if name not in before or before[name] != value}


class Launch(Record):
    """One run. ``steps`` are applied in their order in the process that then executes ``argv``."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    steps: tuple[Step, ...]
    base: bytes = b""
    """Steps, as ``encode_steps`` gives them, that come before the others and are the same for many runs, so that
    they can be done ahead of demand."""
    source: bytes = b""
    """The text to be run, where one of ``steps`` is a ``JOB_SOURCE``."""
    groups: Groups = Groups()
    watch: Watch = Watch()
    without_namespaces: bool = False
    """Whether the cell has no namespaces of its own: the guest shares the host's, or an engine makes them."""
    own_network: bool = True
    host_uid: int | None = None
    """The uid behind the guest where root starts the run; ``None`` takes one from the warden's range."""
    stdin: bool = True
    """Whether anything is going to come for the guest's standard input."""
    errnos: Mapping[int, int] = {}
    """The errno of each system call, by number, that the warden is asked about; EPERM for any other."""
    channel: bool = False
    """Whether descriptor 3 of the guest is a pipe for what it has to say about its own result."""
    warm: bytes = b""
    """How to start it from a warm interpreter instead, as ``Warm.encode`` gives it; empty where that does not do."""
    eager: bool = False
    """Whether to start the warm interpreter at once: many runs are going to follow."""
    collect: Collect | None = None
    repeats: bool = False
    """Whether the next one over the same socket may differ from it in its source alone: its steps are remembered, and
    it may be handed to its guest by the caller, past the warden."""
    concessions: Mapping[str, str] = {}
    """Guarantees that this very job takes away from its plan, with a sentence each: none without the policy's word."""
    trace: int = 0
    """The number under which the run's steps are noted; 0 is none (see ``_trace``)."""
    caller: int = 0
    """Whose run it is, as the calling process numbers them: where runs have to wait, callers take turns."""
    project: Any = None
    """The folder of the host behind the workspace; stays with the caller."""

    def as_wire(self) -> dict[str, Any]:
        """Return the launch as data that the wire protocol carries, but for what both ends forget: its ``source`` and
        ``trace``, and its ``steps``, in which lies what is laid into the sandbox, unless the next may repeat them."""
        collect = None if self.collect is None else self.collect.as_dict()
        fields = self.as_dict() | {"groups": self.groups.as_dict(), "watch": self.watch.as_dict(), "collect": collect}
        del fields["project"], fields["source"], fields["trace"]
        if not self.repeats:
            del fields["steps"]
        return fields

    @classmethod
    def from_wire(cls, fields: dict[str, Any], before: Launch | None = None) -> Launch:
        """Return the launch of which ``as_wire`` gave ``fields``, with what it left out. What they lack is as in the
        one ``before``. Raises ``TypeError`` on anything else."""
        for name, record in _RECORDS.items():
            if fields.get(name):
                fields[name] = record(**fields[name])
        return cls(**fields) if before is None else before.adding(**fields)

    def remembered(self) -> Launch:
        """Return what both ends of a socket keep of it for the next one."""
        return self.adding(**_OF_ONE_RUN) if self.repeats else self.adding(**_OF_ONE_RUN, steps=())

    def with_separate_source(self, source: bytes | None) -> Launch | None:
        """Return it with this very ``source`` apart from its steps; ``None`` where it is not one of them."""
        places = [at for at, step in enumerate(self.steps) if step[0] == "job_file" and step[-1] is source]
        if source is None or len(places) != 1:
            return None
        at = places[0]
        step = (JOB_SOURCE, *self.steps[at][1:-1])
        return self.adding(steps=(*self.steps[:at], step, *self.steps[at + 1 :]), source=source, repeats=True)

    @property
    def whole_steps(self) -> tuple[Step, ...]:
        """Its steps, with the source where it belongs."""
        return tuple(("job_file", *step[1:], self.source) if step[0] == JOB_SOURCE else step for step in self.steps)

    @property
    def template(self) -> TemplateFields:
        """All of it that its guest is told but the source."""
        return self.argv, self.environment, self.channel, self.steps


_RECORDS: Mapping[str, type[Record]] = {"groups": Groups, "watch": Watch, "collect": Collect}
