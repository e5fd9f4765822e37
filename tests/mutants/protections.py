"""The protections, each with the edit of the source that switches it off. The switch is nowhere in the product.

An edit is a file below ``src/stockade``, a text that stands in it exactly once, and what stands there instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.refusals import REFUSED_BY_ALL, REFUSED_BY_STANDARD

Edit = tuple[str, str, str]


@dataclass(frozen=True)
class Protection:
    """One protection. Where ``beside`` names others, it is a second wall, which shows when those are off as well."""

    name: str
    edits: tuple[Edit, ...]
    concerns: tuple[str, ...]
    """The attacks and guarantees to try first."""
    beside: tuple[str, ...] = ()
    given: tuple[Edit, ...] = ()
    """What the host lacks, or has, in this trial."""
    needs: tuple[str, ...] = ()
    """What an attack must have here to notice, by the names in ``attacks/needs.py``."""


_STAGE, _INSIDE, _NURSERY = "linux/steps/root.py", "warden/inside.py", "warden/nursery.py"
_LIMITS, _GROUP, _METER = "backends/limits.py", "linux/cgroups/group.py", "warden/meter.py"
_NATIVE, _WORKSPACE, _REFUSALS = "backends/native.py", "backends/native_workspace.py", "linux/seccomp/refusals.py"
_FLAGS = "processes.NEW_NS | processes.NEW_PID | processes.NEW_IPC | processes.NEW_UTS"
_NO_GROUPS: tuple[Edit, ...] = (
    (
        "_facts.py",
        'for version, path, names in data["hierarchies"] for name in names]',
        "for version, path, names in ()]",
    ),
    ("_facts.py", "(name, version, path) for version, path, names in ()", "(None, None, None) for _ in ()"),
    ("warden/server.py", 'for item in facts["hierarchies"]', "for item in ()"),
)
_KEYS = ("ipc/session_keyring", "ipc/key_by_number", "syscalls/keys")


def _without(flag: str) -> Edit:
    return (_NURSERY, _FLAGS, " | ".join(item for item in _FLAGS.split(" | ") if item != f"processes.NEW_{flag}"))


NAMESPACES = (
    Protection("PID namespace", (_without("PID"),), ("process_view", "environment", "no_survivors")),
    Protection("network namespace", ((_NURSERY, "(processes.NEW_NET if own_network else 0)", "0"),), ("network", "ipc")),
    Protection("IPC namespace", (_without("IPC"),), ("ipc",)),
    Protection("UTS namespace", (_without("UTS"), (_STAGE, "socket.sethostname(name)", "pass")), ("environment", "privileges/host_name")),
    Protection("cgroup namespace", ((_STAGE, "libc.unshare(processes.NEW_CGROUP)", "pass"),), ("environment",)),
    Protection(
        "user namespace",
        ((_STAGE, """        libc.unshare(processes.NEW_USER)
        processes.map_identity(self._proc, uid, self._uid, gid, self._gid)
        processes.no_user_namespaces(self._proc)
""", ""), ("linux/processes.py", """    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP""", """    for capability in ():
        libc.prctl(PR_CAPBSET_DROP""")),  # which takes a capability that only the namespace gives
        ("privileges/nested_root", "privileges/become_root", "processes/other_namespace", "disk/own_tmpfs", "filesystem_write/fresh_proc"),
        beside=("system-call filter", "Landlock"),
    ),
    Protection(
        "no user namespaces below the guest's",
        ((_STAGE, "processes.no_user_namespaces(self._proc)", "pass"),),
        ("privileges/nested_root", "privileges/map_another", "filesystem_write/fresh_proc", "disk/own_tmpfs"),
        beside=("system-call filter", "Landlock", "read-only /proc"),
    ),
)  # fmt: skip
VIEW = (
    Protection(
        "view of files",
        ((_NATIVE, "        *(bound(policy, needs.readable, needs.packages, None) if",
          '        *[("bind", path, path, ()) for path in ("/var", "/root", "/home", "/run", "/etc/shadow")],\n        *(bound(policy, needs.readable, needs.packages, None) if'),),
        ("filesystem_read", "filesystem_write/outside_by_path"),
    ),
    Protection(
        "read-only mounts",
        ((_WORKSPACE, 'FILE = ("ro", "nosuid", "nodev")', 'FILE = ("nosuid", "nodev")'),
         (_WORKSPACE, 'PROGRAMS = ("ro", "nosuid", "nodev", "follow")', 'PROGRAMS = ("nosuid", "nodev", "follow")')),
        ("filesystem_write/bound_file", "filesystem_write/bound_folder", "filesystem_write/attributes", "filesystem_write/reopened", "filesystem_write/program_file"),
        beside=("Landlock",),
    ),
    Protection(
        "nosuid",
        ((_WORKSPACE, 'FILE = ("ro", "nosuid", "nodev")', 'FILE = ("ro", "nodev")'),
         (_WORKSPACE, 'PROGRAMS = ("ro", "nosuid", "nodev", "follow")', 'PROGRAMS = ("ro", "nodev", "follow")'),
         (_NATIVE, '("ro", "nosuid")', '("ro",)')),
        ("privileges/setuid_program", "privileges/setuid_root"),
        beside=("system-call filter", "Landlock", "no new privileges", "user namespace"),
    ),
    Protection(
        "nodev",
        ((_WORKSPACE, 'FILE = ("ro", "nosuid", "nodev")', 'FILE = ("ro", "nosuid")'),
         (_WORKSPACE, 'PROGRAMS = ("ro", "nosuid", "nodev", "follow")', 'PROGRAMS = ("ro", "nosuid", "follow")')),
        ("privileges/device_in_a_folder",),
    ),
    Protection("read-only devices", ((_NATIVE, '("ro", "nosuid")', '("nosuid",)'),), ("filesystem_write/device_times",)),
    Protection(
        "read-only /proc",
        ((_STAGE, 'mounts.bind(self._proc, place, "/proc", mounts.ATTR_RDONLY)', 'mounts.bind(self._proc, place, "/proc", 0)'),),
        ("filesystem_write/own_proc", "filesystem_write/settings_of_own_namespace", "privileges/map_another"),
        beside=("Landlock",),
    ),
    Protection(
        "sealed root",
        ((_STAGE, 'mounts.restrict(self._root, "/", mounts.ATTR_RDONLY)', "pass"),),
        ("disk/other_places", "filesystem_write/system_folders"),
        beside=("Landlock",),
    ),
    Protection("size of the scratch space", (("linux/mounts.py", 'f"size={size},nr_inodes={inodes},', 'f"nr_inodes={inodes},'),), ("disk",)),
    Protection("inodes of the scratch space", (("linux/mounts.py", "nr_inodes={inodes},", ""),), ("disk",)),
    Protection(
        "Landlock",
        ((_NATIVE, '    return [("landlock", ruleset.to_json())]', "    return []"),),
        ("filesystem_write/bound_file", "filesystem_write/bound_folder", "filesystem_write/reopened", "filesystem_write/program_file"),
        beside=("read-only mounts",),
    ),
)  # fmt: skip
RIGHTS = (
    Protection(
        "capabilities dropped",
        ((_STAGE, """        processes.drop_capabilities()
        self._settled = True  # what is made""", "        self._settled = True  # what is made"),),
        ("privileges/as_root_inside", "privileges/capabilities"),
        beside=("empty bounding set",),
    ),
    Protection(
        "empty bounding set",
        ((_STAGE, "processes.no_new_privileges()\n        processes.empty_bounding_set()", "processes.no_new_privileges()"),),
        ("privileges/as_root_inside", "privileges/file_capabilities"),
        beside=("capabilities dropped",),
    ),
    Protection(
        "no new privileges",
        ((_STAGE, """        processes.no_new_privileges()
        processes.empty_bounding_set()""", "        processes.empty_bounding_set()"),),
        ("privileges/setuid_program", "privileges/setuid_root"),
        beside=("system-call filter", "Landlock", "nosuid", "user namespace"),
    ),
    Protection(
        "uid of its own",
        (("warden/server.py", "uid = self._leases.take()", "uid = 0"),),
        ("filesystem_read/private_file", "filesystem_write/setuid_left"),
    ),
    Protection("session of its own", ((_STAGE, """        os.setsid()
        os.umask(0o022)
        processes.new_session_keyring()
        if self._privileged:""", """        os.umask(0o022)
        processes.new_session_keyring()
        if self._privileged:"""),), ("process_view/process_group",)),
    Protection("session keyring of its own", ((_STAGE, """        processes.new_session_keyring()
        if self._privileged:""", "        if self._privileged:"),), _KEYS, beside=("system-call filter",)),
    # The kernel does as much at a change of uid, unless the host lets such processes leave cores (proc(5), suid_dumpable).
    Protection("init not dumpable", ((_INSIDE, "        processes.set_dumpable(False)\n", ""),),
               ("process_view/memory_of_another", "process_view/trace", "process_view/take_descriptor", "environment/of_other_processes", "filesystem_read/proc_descriptors"),
               beside=("user namespace", "init has another gid", "system-call filter", "Landlock"),
               given=((_INSIDE, "            processes.become(self.uid, _INIT_GID)\n", "            processes.become(self.uid, _INIT_GID)\n            processes.set_dumpable(True)\n"),)),
    Protection("init has another gid", ((_INSIDE, "processes.become(self.uid, _INIT_GID)", "processes.become(self.uid, self.gid)"),),
               ("process_view/limit_another", "syscalls/limit_the_init"), beside=("rule on prlimit64", "user namespace")),
)  # fmt: skip
INHERITANCE = (
    Protection("environment of the guest",
               ((_INSIDE, "            fields = self._receive()\n",
                 '            fields = self._receive()\n            fields["environment"] = {**os.environ, **fields["environment"]}\n'),),
               ("environment",), beside=("environment of the warden",)),
    Protection("environment of the warden", (("client/wardens.py", "env=_environment()", "env=None"),),
               ("environment",), beside=("environment of the guest",)),
    Protection("descriptors closed at the warden's start",
               (("client/wardens.py", "pass_fds=(theirs.fileno(),),", "close_fds=not theirs.set_inheritable(True) and False,"),),
               ("filesystem_read/leaked_file", "filesystem_read/leaked_folder"),
               beside=("descriptors closed in the cell", "descriptors closed at execve")),
    Protection("descriptors closed in the cell",
               (("linux/processes.py", "    low = 0\n    for fd in sorted(set(keep)):", "    return\n    low = 0\n    for fd in sorted(set(keep)):"),),
               ("filesystem_read/leaked_file", "filesystem_read/leaked_folder"),
               beside=("descriptors closed at the warden's start", "descriptors closed at execve")),
    Protection("descriptors closed at execve", ((_INSIDE, "        processes.close_on_exec_from(4)\n", ""),),
               ("filesystem_read/leaked_file", "filesystem_read/leaked_folder"),
               beside=("descriptors closed at the warden's start", "descriptors closed in the cell")),
)  # fmt: skip
_RESOURCES = {
    "nofile": ('        ("nofile", Guarantee.OPEN_FILES),\n', ("open_files",), (), ()),
    "fsize": ('        ("fsize", Guarantee.FILE_SIZE),\n', ("file_size",), (), ()),
    "stack": ('        ("stack", Guarantee.STACK),\n', ("stack",), (), ()),
    "nproc": ('        ("nproc", Guarantee.PROCESSES),\n', ("processes",), ("pids.max",), ()),
    "memlock": ('"memlock": (1 << 16, 1 << 16), ', ("memory/lock_pages",), (), ()),
    "cpu": ('        limits["cpu"] = (seconds, seconds + 1)\n', ("cpu_time",), ("watch on CPU time",), ()),
    "data": (
        '        limits["data"] = (least, least)\n',
        ("memory/one_string", "memory/private_mapping", "memory/list"),
        ("sampled memory",),
        _NO_GROUPS,
    ),
    "rtprio": (', "rtprio": (0, 0)', ("privileges/real_time",), (), ()),
    "msgqueue": ('"msgqueue": (0, 0), ', ("memory/message_queue",), ("Landlock",), ()),
    "core": ('"core": (0, 0), ', ("filesystem_write/core_left",), (), ()),
}
_NEEDED = {"rtprio": ("raised-limits",), "core": ("core-files",)}
RESOURCE_LIMITS = tuple(
    Protection(f"RLIMIT_{name.upper()}", ((_LIMITS, text, "        pass\n" if "limits[" in text else ""),), concerns, beside, given, _NEEDED.get(name, ()))
    for name, (text, concerns, beside, given) in _RESOURCES.items()
)  # fmt: skip
GROUPS = (
    Protection("memory limit of the group", ((_GROUP, 'self._set("memory", "memory.limit_in_bytes", memory)', "pass"),),
               ("memory",), beside=("swap limit of the group",)),
    Protection("swap limit of the group", ((_GROUP, 'self._set("memory", "memory.memsw.limit_in_bytes", memory + swap)', "pass"),),
               ("memory",), beside=("memory limit of the group",)),
    Protection("pids.max", ((_GROUP, 'self._set("pids", "pids.max", processes)', "pass"),), ("processes",), beside=("RLIMIT_NPROC",)),
    Protection("CPU quota of the group", ((_GROUP, 'self._set("cpu", "cpu.cfs_quota_us", quota)', "pass"),), ("cpu_rate",)),
)  # fmt: skip
WATCHERS = (
    Protection("watch on wall time", ((_METER, '"wall_time", wall, watch.wall_seconds, wall >= watch.wall_seconds', '"wall_time", wall, watch.wall_seconds, False'),), ("wall_time",)),
    Protection("watch on CPU time", ((_METER, 'self._cpu >= watch.cpu_seconds', 'False'),),
               ("cpu_time",), beside=("RLIMIT_CPU",)),
    Protection("watch on out-of-memory kills",
               ((_GROUP, 'return self._since("oom_kills", self._oom_kills()) or 0', "return 0"),
                (_METER, '"oom_kills": counters.oom_kills if counters else None', '"oom_kills": 0')),
               ("verdict", "memory")),
    Protection("sampled memory", ((_METER, 'used >= watch.sampled_memory', 'False'),),
               ("memory/grandchildren", "memory"), given=_NO_GROUPS),
    Protection("sampled CPU time", ((_METER, "self._cpu = max(self._cpu, sample.cpu_seconds - self._spent)", "pass"),),
               ("cpu_time",), beside=("RLIMIT_CPU",), given=_NO_GROUPS),
    Protection("count of output",
               (("warden/outlets.py", "Keeper(watch.output_bytes, head_only", "Keeper(None, head_only"),), ("output",), beside=("the caller's own count of output",)),
    Protection("the caller's own count of output", (("client/intake.py", "self._keeper = Keeper(limit, head_only", "self._keeper = Keeper(None, head_only"),),
               ("output",), beside=("count of output",)),
    Protection("bound on the result channel", (("warden/outlets.py", "CHANNEL_LIMIT = 1 << 20", "CHANNEL_LIMIT = 1 << 40"),),
               ("output/result_channel",)),
    Protection("end of all that is left", ((_INSIDE, "        self._end_all_others()\n        self.control.sendall", "        self.control.sendall"),),
               ("no_survivors", "wall_time"), beside=("PID namespace",)),
    Protection("refusal to start without a wall",
               (("_plan.py", "        if not held.strength.holds(floor):", "        if False:"),
                ("backends/base.py", "    if not available.usable:", "    if False:")),
               ("filesystem_read/without_walls",)),
)  # fmt: skip


def _group(does: str, *, permissive: bool) -> Protection:
    since = "Filter.PERMISSIVE" if permissive else "None"
    edit = (_REFUSALS, f'        "{does}",\n        {since},', f'        "{does}",\n        Filter.STANDARD,')
    return Protection(
        f"refusal: {does}",
        (edit,),
        ("syscalls/sweep", *_REACHED.get(does, ())),
        _SECOND.get(does, ()),
    )


_REACHED = {
    "reads, writes or compares other processes": ("process_view/trace", "process_view/memory_of_another"),
    "makes or enters namespaces": ("syscalls/clone_flags", "privileges/nested_root"),
    "starts a process with options in memory": ("syscalls/clone_in_a_struct",),
    "opens a file with options in memory": ("filesystem_write/setuid_in_a_struct",),
    "runs other calls from a queue": ("syscalls/io_uring",),
    "replaces or extends the running kernel": ("privileges/reboot", "privileges/kexec", "privileges/load_module"),
    "loads programs into the kernel or counts its events": ("privileges/bpf", "privileges/perf_events"),
    "handles page faults in user space": ("syscalls/userfaultfd",),
    "uses the kernel's key rings": ("syscalls/keys",),
    "reaches hardware and old processor modes": ("syscalls/modify_ldt",),
}
# With these off a guest has the host's capabilities, all that keeps it from what only root may do.
_CAPABLE = ("uid of its own", "user namespace", "capabilities dropped", "empty bounding set")
_SECOND = {
    "makes or enters namespaces": ("no user namespaces below the guest's", "rule on clone"),
    "starts a process with options in memory": ("no user namespaces below the guest's",),
    "replaces or extends the running kernel": _CAPABLE,
}
_NOTHING_THERE = "was removed from the kernel or never written"
"""No protection: the kernel answers the same."""
RULE_GROUPS = tuple(
    _group(group.does, permissive=group.since is Filter.PERMISSIVE)
    for group in (*REFUSED_BY_STANDARD, *REFUSED_BY_ALL)
    if group.does != _NOTHING_THERE
)


def _argument(
    name: str,
    calls: tuple[str, ...],
    concerns: tuple[str, ...],
    beside: tuple[str, ...] = (),
    given: tuple[Edit, ...] = (),
    needs: tuple[str, ...] = (),
) -> Protection:
    edit = (
        "linux/seccomp/filters.py",
        "elif name in ARGUMENT_RULES:",
        f"elif name in ARGUMENT_RULES and name not in {calls!r}:",
    )
    return Protection(f"rule on {name}", (edit,), concerns, beside, given, needs)


_TERMINALS_SHOWN = (
    _NATIVE,
    '        ("link", "/dev/fd"',
    '        ("bind", "/dev/pts", "/dev/pts", ()),\n        ("link", "/dev/fd"',
)
_OF_SCHEDULING = ("sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity")
_OF_MODES = ("chmod", "fchmod", "fchmodat", "fchmodat2", "creat", "open", "openat")
ARGUMENT_RULES = (
    _argument(
        "clone",
        ("clone",),
        ("syscalls/clone_flags", "privileges/nested_root"),
        ("no user namespaces below the guest's",),
    ),
    _argument(
        "socket",
        ("socket",),
        ("network/vm_socket", "network/raw_socket", "network/packet_socket", "network/netlink_usersock"),
        ("network namespace",),
    ),
    _argument(
        "ioctl",
        ("ioctl",),
        ("syscalls/typed_for_another",),
        ("Landlock",),
        (_TERMINALS_SHOWN,),
        ("typing",),
    ),
    _argument(
        "prlimit64",
        ("prlimit64",),
        ("process_view/limit_another", "syscalls/limit_the_init"),
        ("init has another gid",),
    ),
    _argument("scheduling", _OF_SCHEDULING, ("process_view/slow_another",)),
    _argument("setpriority", ("setpriority",), ("process_view/renice",)),
    _argument("ioprio_set", ("ioprio_set",), ("process_view/io_priority",)),
    _argument("personality", ("personality",), ("syscalls/personality",)),
    _argument("modes with set-user-id", _OF_MODES, ("filesystem_write/setuid_of_its_own",)),
    _argument(
        "mknod",
        ("mknod", "mknodat"),
        ("filesystem_write/whiteout_left", "filesystem_write/device_left", "privileges/device_node"),
        ("Landlock",),
    ),
)
FILTER = Protection(
    "system-call filter",
    ((_LIMITS, "    return [(name, _filter.program(plan))]", "    return []"),),
    ("syscalls", "memory/lock_pages"),
)
ALL = (
    *NAMESPACES, *VIEW, *RIGHTS, FILTER, *RULE_GROUPS, *ARGUMENT_RULES, *INHERITANCE, *RESOURCE_LIMITS, *GROUPS, *WATCHERS,
)  # fmt: skip
BY_NAME = {item.name: item for item in ALL}
