"""Protections that bound: resource limits, control groups, watchers, and the rules of the collector."""

from __future__ import annotations

from tests.mutants.protection import Edit, Protection

_LIMITS, _GROUP, _METER = "backends/shared/limits.py", "linux/cgroups/group.py", "warden/run/meter.py"
_UNCOUNTED = "warden/run/uncounted.py"
_INSIDE, _COLLECTOR, _BUNDLE = "warden/cold/init.py", "warden/run/collector.py", "client/collected_files.py"
_NO_GROUPS: tuple[Edit, ...] = (
    (
        "planning/facts.py",
        'for version, path, names in data["hierarchies"] for name in names]',
        "for version, path, names in ()]",
    ),
    ("planning/facts.py", "(name, version, path) for version, path, names in ()", "(None, None, None) for _ in ()"),
    ("warden/supervisor.py", 'for item in facts["hierarchies"]', "for item in ()"),
)
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
}
_NEEDED = {"rtprio": ("raised-limits",), "nproc": ("unlimited-processes",)}  # a limit of the account would stand in
RESOURCE_LIMITS = (
    Protection("RLIMIT_CORE", (("warden/process.py", "    limits.forbid_cores()", "    pass"),),
               ("filesystem_write/core_left",), ("rule on prlimit64",), needs=("core-files",)),
    *(Protection(f"RLIMIT_{name.upper()}", ((_LIMITS, text, "        pass\n" if "limits[" in text else ""),), concerns, beside, given, _NEEDED.get(name, ()))
      for name, (text, concerns, beside, given) in _RESOURCES.items()),
)  # fmt: skip
GROUPS = (
    Protection("memory limit of the group", ((_GROUP, 'self._set("memory", "memory.limit_in_bytes", memory)', "pass"),),
               ("memory",), beside=("swap limit of the group",)),
    Protection("swap limit of the group", ((_GROUP, 'self._set("memory", "memory.memsw.limit_in_bytes", memory + swap)', "pass"),),
               ("memory",), beside=("memory limit of the group",)),
    Protection("bound on buffers of sockets", ((_GROUP, 'self._set("memory", SOCKETS_V1, memory)', "pass"),),
               ("memory/tcp_buffers", "memory/udp_buffers"), needs=("cgroup-v1",)),
    Protection("pids.max", ((_GROUP, 'self._set("pids", "pids.max", processes)', "pass"),), ("processes",), beside=("RLIMIT_NPROC",)),
    Protection("CPU quota of the group", ((_GROUP, 'reserve.set_quota(self._paths["cpu"], self._version["cpu"], most)', "pass"),), ("cpu_rate",)),
)  # fmt: skip
WATCHERS = (
    Protection("watch on wall time", ((_METER, '"wall_time", wall, watch.wall_seconds, wall >= watch.wall_seconds', '"wall_time", wall, watch.wall_seconds, False'),), ("wall_time",)),
    Protection("watch on CPU time", ((_METER, 'self._cpu >= watch.cpu_seconds', 'False'),),
               ("cpu_time",), beside=("RLIMIT_CPU",)),
    Protection("watch on out-of-memory kills",
               ((_GROUP, "return kills if kills and self._has_met_limit() else 0", "return 0"),
                (_METER, 'oom_kills=kills', 'oom_kills=0')),
               ("verdict", "memory")),
    Protection("watch on sockets that nothing counts", ((_UNCOUNTED, "held = sockets.uncounted(pid, all_kinds=all_kinds, enough=enough) if pid else 0", "held = 0"),),
               ("memory/netlink_buffers", "memory/unaccepted", "memory/reset_connections")),
    Protection("count of connections that were reset", (("linux/sockets.py", "hidden = max(0, queued - waiting)", "hidden = queued = 0"),), ("memory/reset_connections",)),
    Protection("rule on memory that no process's limits count", (("planning/syscall_filter.py", "    return filters.without_shared_memory(table) if rules.refuse_shared_memory else table", "    return table"),),
               ("memory/shared_and_dropped", "memory/memfd", "memory/sysv_segment", "memory/pages_in_pipes"), given=_NO_GROUPS),
    Protection("watch on locks of files", ((_UNCOUNTED, "= locks.held(head), cpu or 0.0", "= 0, cpu or 0.0"),), ("memory/file_locks",)),
    Protection("sampled memory", ((_METER, 'used >= watch.sampled_memory', 'False'),),
               ("memory/grandchildren", "memory"), given=_NO_GROUPS),
    Protection("sampled CPU time", ((_METER, "self._cpu = max(self._cpu, sample.cpu_seconds - self._reaped_before - self._spent)", "pass"),),
               ("cpu_time",), beside=("RLIMIT_CPU",), given=_NO_GROUPS),
    Protection("count of output",
               (("warden/run/output.py", "HeadTail(watch.output_bytes, head_only", "HeadTail(None, head_only"),), ("output",), beside=("the caller's own count of output",)),
    Protection("the caller's own count of output", (("client/stream_buffer.py", "self._head_tail = HeadTail(limit, head_only", "self._head_tail = HeadTail(None, head_only"),),
               ("output",), beside=("count of output",)),
    Protection("bound on the result channel", (("warden/run/output.py", "CHANNEL_LIMIT = 1 << 20", "CHANNEL_LIMIT = 1 << 40"),),
               ("output/result_channel",)),
    Protection("end of all that is left", ((_INSIDE, "        self._end_all_others()\n        self.control.sendall", "        self.control.sendall"),),
               ("no_survivors", "wall_time"), beside=("PID namespace",)),
    Protection("refusal to start without a wall",
               (("planning/plan.py", "        if not held.strength.holds(floor):", "        if False:"),
                ("backends/base.py", "    if not available.usable:", "    if False:")),
               ("filesystem_read/without_walls",)),
)  # fmt: skip


def _of_the_collector(name: str, old: str, new: str, attack: str, beside: tuple[str, ...] = ()) -> Protection:
    return Protection(f"collector: {name}", ((_COLLECTOR, old, new),), (attack,), beside)


_PRIVATE, _LINK = "filesystem_read/private_file_brought_out", "filesystem_read/link_brought_out"
_PIPE, _TWO_NAMES = "filesystem_write/pipe_brought_out", "filesystem_write/second_name_brought_out"
_LARGE, _TOGETHER = "output/large_file_brought_out", "output/large_files_brought_out"
_NAME, _MANY, _DEEP = "output/name_brought_out", "output/many_files_brought_out", "wall_time/depth_brought_out"
_BY_STATUS, _AS_READ = "collector: bytes of a file", "collector: bytes counted as they are read"
_OF_A_RECORD, _OF_A_NAME = "the caller's own bound on what is brought out", "the caller's own look at names"
COLLECTOR = (
    _of_the_collector("no link is followed", "beneath.look(folder, name)", "os.open(name, os.O_PATH, dir_fd=folder)", _LINK),
    _of_the_collector("the guest's uid", "processes.give_up_rights(uid, warden)", "processes.give_up_rights(None, warden)", _PRIVATE),
    _of_the_collector("regular files only", "elif not stat.S_ISREG(mode):", "elif False:", _PIPE),
    _of_the_collector("one name only", "elif status.st_nlink != 1:", "elif False:", _TWO_NAMES),
    _of_the_collector("names that are text", "elif not _is_text(path):", "elif False:", _NAME, (_OF_A_NAME,)),
    Protection(_OF_A_NAME,
               ((_BUNDLE, "elif not _is_text(path):", "elif False:"),
                (_BUNDLE, "path.decode(), mode & 0o777", 'path.decode("utf-8", "surrogateescape"), mode & 0o777')),
               (_NAME,), ("collector: names that are text",)),
    _of_the_collector("depth", "if depth >= self._order.depth:", "if False:", _DEEP),
    _of_the_collector("number of files", "elif self._left[wanted] <= 0:", "elif False:", _MANY),
    _of_the_collector("bytes of all files", "elif status.st_size > self._bytes_left[wanted]:", "elif False:", _TOGETHER,
                      (_AS_READ,)),
    _of_the_collector("bytes of a file", "elif status.st_size > self._order.file_bytes:", "elif False:", _LARGE,
                      (_AS_READ, _OF_A_RECORD)),
    _of_the_collector("bytes counted as they are read", "min(self._order.file_bytes, self._bytes_left[wanted])", "1 << 40",
                      _LARGE, (_BY_STATUS, _OF_A_RECORD)),
    Protection(_OF_A_RECORD,
               (("warden/run/collector_records.py", "most = min(self._file_bytes, self._left) if kind == FILE", "most = 1 << 40 if kind == FILE"),),
               (_LARGE,), (_BY_STATUS, _AS_READ)),
)  # fmt: skip
