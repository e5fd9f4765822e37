"""A launch: everything the warden needs to start, watch and end one run, as plain data."""

from __future__ import annotations

import marshal

from stockade.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Step = tuple[Any, ...]
    TemplateFields = tuple[tuple[str, ...], Mapping[str, str], bool, tuple[Step, ...]]
"""A step names a method of ``linux.stage.Stage``, or of a worker's ``GuestMounts`` or ``GuestSetup``. It gives the
method's arguments: text, numbers, bytes, lists and mappings.

Template fields are command line, environment, whether the guest has a result channel, and steps: everything that the
guest receives except the source."""

JOB_SOURCE = "job_source"
"""The step that stands for ``job_file`` where the file's content is the launch's ``source``."""


def encode_steps(steps: tuple[Step, ...]) -> bytes:
    """Return steps as one ``bytes`` object, which is fast to compare and to send."""
    return marshal.dumps(steps, 4)


def decode_steps(data: bytes) -> tuple[Step, ...]:
    """Return the steps that ``encode_steps`` encoded."""
    steps: tuple[Step, ...] = marshal.loads(data)
    return steps


class Groups(Record):
    """The limits to write into the run's control groups; ``None`` leaves a limit unset."""

    memory: int | None = None
    swap: int | None = None
    processes: int | None = None
    cores: float | None = None
    io_read: int | None = None
    """Bytes per second, from each disk."""

    def with_tasks(self, more: int) -> Groups:
        """Return a copy that allows ``more`` tasks, for those that are not the guest's."""
        return Groups(**self.as_dict() | {"processes": None if self.processes is None else self.processes + more})


class Watch(Record):
    """Limits that the warden itself watches, in seconds and bytes; ``None`` means no limit."""

    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    output_bytes: int | None = None
    kill_on_output: bool = False
    sampled_memory: int | None = None
    """Bytes of the whole process tree, read from /proc: only where no control group bounds memory."""
    soft_memory: int | None = None
    """Bytes of the whole process tree. The caller is informed once when the tree passes them."""
    own_network: bool = False
    """Whether the guest has its own network namespace, whose sockets count towards its memory."""
    setup_seconds: float = 10.0
    engine_tasks: int = 0
    """Tasks in the run's control groups that belong to an engine between init and guest. They form a chain: each is the
    only child of the one before."""
    counts_tasks: bool = True
    """Whether the tasks in the run's control groups are the guest's. Otherwise they are an engine's threads, and nobody
    learns their number."""
    engine_cpu: float = 0.0
    """CPU seconds that an engine takes to start. Until then, its use of the kernel does not lower the run's weight."""
    own_tasks: int = 1
    """Tasks that the guest's interpreter needs for itself, its first one included. All further tasks are the job's."""
    live: bool = False
    """Whether a caller follows the run: then the warden reports the start at once, and all output up to the limit."""
    idle_seconds: float | None = None
    """How long a living instance may go without a call and without a byte to or from one of its execs."""
    report_seconds: float | None = None
    """How often to report what the run has used."""

    @property
    def other_tasks(self) -> int:
        """The number of tasks of the run that are not the job's."""
        return self.engine_tasks + self.own_tasks - 1


class Collect(Record):
    """Tells what to collect from the workspace after the last process is gone, in counts, bytes and seconds."""

    patterns: tuple[str, ...] = ()
    """Patterns of the files to collect; see ``core.patterns``."""
    everything: bool = False
    """Whether to collect everything that the run made, changed or deleted."""
    overlaid: bool = False
    """Whether the folder is the upper layer of an overlay file system, which represents deleted names by devices."""
    copied: bool = False
    """Whether a list of the files copied into the folder comes with it. The run made all other files."""
    own: bool = True
    """Whether the folder is removed with the run, so that the collector may change modes in it."""
    skip: tuple[str, ...] = ()
    """Paths to skip, with everything below them."""
    files: int = 1000
    file_bytes: int = 16 << 20
    total_bytes: int = 64 << 20
    names: int = 200_000
    depth: int = 64
    seconds: float = 20.0


class ProxyOrder(Record):
    """Bounds on traffic through the proxy of a run, in bytes, bytes per second, seconds, counts; ``None``: no limit."""

    allow: tuple[str, ...]
    """Patterns of targets; see ``core.targets``."""
    connections: int
    requests: int | None
    sent: int | None
    received: int | None
    rate: int | None
    connect_seconds: float
    idle_seconds: float
    asks: bool = False
    """Whether the caller may allow names that are not listed."""
    ask_seconds: float = 30.0
    filter: bytes = b""
    """The proxy's own system-call filter; empty if the host cannot load one."""


CHANNELS = "channels"
"""The folder below the folder of a container's run that holds its pipes; the container sees it."""
COMMAND = f"{CHANNELS}/command"
"""The file there that tells the first process of the container what to run, as code of its shell."""
PIPES = ("stdin", "stdout", "stderr", "channel", "orders", "reports")
"""The names of those pipes. Over the last two, the warden and the first process of the container talk."""

FILTER_FILE = "seccomp.json"
"""The name of a system-call filter in a run's folder, for an engine that takes the path of a file."""


class ContainerOrder(Record):
    """How to run the guest in a container of an engine that runs by itself."""

    socket: str
    """The path of the engine's socket."""
    create: bytes
    """The request to create the container, as JSON. A mount whose source is relative lies in the run's folder, and so
    does the file of a system-call filter."""
    update: bytes = b""
    """A request to change the limits before the guest begins; empty if none has to change."""
    interface: str = "docker"
    """Whose words these requests are in: ``docker`` or ``podman``."""
    files: Mapping[str, tuple[bytes, int]] = {}
    """Files to write into the run's folder first: relative path to content and mode."""
    folders: tuple[str, ...] = ()
    """Folders to make there first, into which files of the job go."""
    job: Mapping[str, tuple[bytes, int]] = {}
    """Files to write there once the container waits for its job. Nothing else here is about one job alone."""
    prewarm: int = 0
    """How many containers may wait for jobs of the caller; 0 if none may wait for another job with this order."""
    idle_seconds: float = 0.0
    """How long a container may wait."""

    def without_job(self) -> ContainerOrder:
        """Return the order of a container that waits for a job. An equal one can serve the same jobs."""
        return self.adding(job={})


class Warm(Record):
    """How to keep an interpreter warm for runs of one kind: how it starts, and the steps of each of its processes, as
    ``encode_steps`` returns them."""

    zygote: bytes
    """Steps of the instance in which the interpreter starts."""
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    worker: bytes
    """Steps of a worker: a fork of the zygote that becomes PID 1 of a PID namespace and runs guests one by one."""
    network: bytes
    """Steps that bring up the network of a worker's namespace."""
    mounts: bytes
    """Steps that set up a guest's mounts and folders."""
    guest: bytes
    """Steps of a worker's fork that becomes a guest. They are applied ahead of demand."""

    def encode(self) -> bytes:
        """Return the record as one ``bytes`` object, which is fast to compare and to send."""
        return marshal.dumps(self.as_dict(), 4)

    @classmethod
    def decode(cls, data: bytes) -> Warm:
        """Return the record that ``encode`` encoded."""
        return cls(**marshal.loads(data))


class Stdio(Record):
    """Where the standard streams of a guest lead: through pipes, to a terminal, or into files of the sandbox.

    A bounded stream has a limit, a head and a tail. A live one has a window instead: when so many bytes wait for the
    caller, the guest waits. Its total is unlimited.
    """

    rows: int = 0
    """The height of the terminal; 0 means pipes. A terminal is live."""
    columns: int = 0
    files: Mapping[int, str] = {}
    """Paths by stream, 1 or 2, as the guest sees them. The guest's process opens them, with its own rights."""
    window: int = 0
    """The bytes of each live stream that may wait for the caller; 0 means bounded streams."""


_OF_ONE_RUN: Mapping[str, Any] = {"source": b"", "trace": 0}


def changed_fields(fields: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``fields`` of a launch that differ from those of the launch ``before``. Runs of a kind share most."""
    if fields is before:
        return {}
    return {name: value for name, value in fields.items() if name not in before or before[name] != value}


class Launch(Record):
    """Describes one run. The process that then executes ``argv`` applies ``steps`` in their order."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    steps: tuple[Step, ...]
    base: bytes = b""
    """Steps that come before ``steps``, as ``encode_steps`` returns them. Many runs share them, so instances apply them
    ahead of demand."""
    source: bytes = b""
    """The source text to run, if one of ``steps`` is a ``JOB_SOURCE``."""
    groups: Groups = Groups()
    watch: Watch = Watch()
    without_namespaces: bool = False
    """Whether the instance has no namespaces: the guest shares the host's, or an engine makes its own."""
    own_network: bool = True
    host_uid: int | None = None
    """The host uid of the guest where root starts the run; ``None`` takes one from the warden's range."""
    stdin: bool = True
    """Whether the guest's standard input may receive data."""
    errnos: Mapping[int, int] = {}
    """The errno for each system call, by number, that the filter asks the warden about; EPERM for all others."""
    channel: bool = False
    """Whether descriptor 3 of the guest is a pipe on which it reports its own result."""
    warm: bytes = b""
    """How to start the run from a warm interpreter, as ``Warm.encode`` returns it; empty if it must start cold."""
    cold: str = ""
    """Why the run must start cold; empty for a command. It stays with the caller."""
    eager: bool = False
    """Whether to start the warm interpreter at once, because many runs will follow."""
    collect: Collect | None = None
    proxy: ProxyOrder | None = None
    """What a proxy lets through. A step of the launch makes its listener inside; ``None``: there is no way out."""
    repeats: bool = False
    """Whether the next run over the same socket may differ in its source alone. Then both ends remember the steps."""
    concessions: Mapping[str, str] = {}
    """Guarantees that this job takes away from its plan, with a sentence for each. The policy must permit each one."""
    trace: int = 0
    """The number under which the run's steps are noted (see ``core.trace``); 0 means that the run is not traced."""
    caller: int = 0
    """The number of the caller within the calling process. Where runs have to wait, callers take turns."""
    sandbox: str = ""
    """The name of a living instance; empty for a run with an instance of its own. The launch is an exec in that
    instance, unless ``lives`` is true."""
    lives: bool = False
    """Whether the launch makes that living instance: its init then starts a process for each exec."""
    stdio: Stdio = Stdio()
    """Where the standard streams lead. Only an exec has other than bounded pipes."""
    folder: str = ""
    """The folder in which an exec starts, as the guest sees it."""
    port: int = 0
    """A port of the sandbox's own network. If it is not 0, the exec executes nothing: its process connects to that
    port, and sends the socket to the caller over the descriptor that came with the run."""
    labels: tuple[str, ...] = ()
    """What the caller says of the run, as ``NAME=VALUE``, for the kill switch."""
    serves: bool = False
    """Whether an exec works for the caller, so that it may start and run while its sandbox is paused."""
    detached: bool = False
    """Whether an exec goes on without its caller, until the sandbox ends."""
    container: ContainerOrder | None = None
    """The container in which the guest runs, if an engine makes it and it does not descend from the warden."""
    project: Any = None
    """The host folder behind the workspace; it stays with the caller."""

    def as_wire(self) -> dict[str, Any]:
        """Return the launch as data for the wire protocol, without the fields that both ends forget.

        These are ``source``, ``trace``, ``cold``, and, unless the next run may repeat them, ``steps``: they hold the
        files for the sandbox.
        """
        collect = None if self.collect is None else self.collect.as_dict()
        proxy = None if self.proxy is None else self.proxy.as_dict()
        fields = self.as_dict() | {"groups": self.groups.as_dict(), "watch": self.watch.as_dict()}
        fields |= {"stdio": self.stdio.as_dict(), "collect": collect, "proxy": proxy}
        fields["container"] = None if self.container is None else self.container.as_dict()
        del fields["project"], fields["source"], fields["trace"], fields["cold"]
        if not self.repeats:
            del fields["steps"]
        return fields

    @classmethod
    def from_wire(cls, fields: dict[str, Any], before: Launch | None = None) -> Launch:
        """Return the launch that ``as_wire`` encoded as ``fields``, completed by the fields that it left out.

        A missing field is taken from the launch ``before``. Raises ``TypeError`` for an unknown field.
        """
        for name, record in _RECORDS.items():
            if fields.get(name):
                fields[name] = record(**fields[name])
        return cls(**fields) if before is None else before.adding(**fields)

    def remembered(self) -> Launch:
        """Return the part of the launch that both ends of a socket keep for the next run."""
        return self.adding(**_OF_ONE_RUN) if self.repeats else self.adding(**_OF_ONE_RUN, steps=())

    def with_separate_source(self, source: bytes | None) -> Launch | None:
        """Return a copy that holds ``source`` outside of its steps; ``None`` if no step holds exactly this object."""
        places = [at for at, step in enumerate(self.steps) if step[0] == "job_file" and step[-1] is source]
        if source is None or len(places) != 1:
            return None
        at = places[0]
        step = (JOB_SOURCE, *self.steps[at][1:-1])
        return self.adding(steps=(*self.steps[:at], step, *self.steps[at + 1 :]), source=source, repeats=True)

    @property
    def whole_steps(self) -> tuple[Step, ...]:
        """The steps, with the source back in its place."""
        return tuple(("job_file", *step[1:], self.source) if step[0] == JOB_SOURCE else step for step in self.steps)

    @property
    def template(self) -> TemplateFields:
        """Everything that the guest receives except the source."""
        return self.argv, self.environment, self.channel, self.steps

    @property
    def next_template(self) -> TemplateFields | None:
        """The template, if the next run can repeat it."""
        return self.template if self.repeats else None


_RECORDS: Mapping[str, type[Record]] = {
    "groups": Groups,
    "watch": Watch,
    "collect": Collect,
    "proxy": ProxyOrder,
    "container": ContainerOrder,
    "stdio": Stdio,
}
