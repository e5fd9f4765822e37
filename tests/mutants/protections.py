"""All protections: those of namespaces, mounts and identity here, and those of the other modules."""

from __future__ import annotations

from tests.mutants.bounds import COLLECTOR, GROUPS, RESOURCE_LIMITS, WATCHERS
from tests.mutants.calls import ARGUMENT_RULES, FILTER, RULE_GROUPS, SOCKETS, UNCOUNTED
from tests.mutants.protection import Edit, Protection
from tests.mutants.way_out import WAY_OUT

_STAGE, _INSIDE, _SPAWNER = "linux/steps/root.py", "warden/cold/init.py", "warden/cold/spawner.py"
_NATIVE, _WORKSPACE = "backends/native/backend.py", "backends/native/workspace.py"
_FLAGS = "processes.NEW_NS | processes.NEW_PID | processes.NEW_IPC | processes.NEW_UTS"
_NETWORK = tuple(
    f"network/{each}"
    for each in (
        "dns",
        "interfaces",
        "tables_in_proc",
        "taken_port",
        "tcp",
        "tcp6",
        "tcp_in_javascript",
        "tcp_in_ruby",
        "udp",
        "straight_past_the_proxy",
        "dns_over_udp",
        "proxy_of_another",
    )
)
_KEYS = ("ipc/session_keyring", "ipc/key_by_number", "syscalls/keys")


def _without(flag: str) -> Edit:
    return (_SPAWNER, _FLAGS, " | ".join(item for item in _FLAGS.split(" | ") if item != f"processes.NEW_{flag}"))


NAMESPACES = (
    Protection("PID namespace", (_without("PID"),), ("process_view", "environment", "no_survivors")),
    Protection("network namespace", ((_SPAWNER, "(processes.NEW_NET if own_network else 0)", "0"),), (*_NETWORK, "ipc")),
    Protection("IPC namespace", (_without("IPC"),), ("ipc",)),
    Protection("UTS namespace", (_without("UTS"), (_STAGE, "socket.sethostname(name)", "pass")), ("environment", "privileges/host_name")),
    Protection("cgroup namespace", ((_STAGE, "libc.unshare(processes.NEW_CGROUP)", "pass"),), ("environment",)),
    Protection(
        "user namespace",
        ((_STAGE, """        libc.unshare(processes.NEW_USER)
        users.map_identity(self._proc, uid, self._uid, gid, self._gid)
        users.bound_namespace(self._proc)
""", ""), ("linux/processes.py", """    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP""", """    for capability in ():
        libc.prctl(PR_CAPBSET_DROP""")),  # which takes a capability that only the namespace gives
        ("privileges/nested_root", "privileges/become_root", "processes/other_namespace", "disk/own_tmpfs", "filesystem_write/fresh_proc"),
        beside=("system-call filter", "Landlock"),
    ),
    Protection(
        "no user namespaces below the guest's",
        ((_STAGE, "users.bound_namespace(self._proc)", "pass"),),
        ("privileges/nested_root", "privileges/map_another", "filesystem_write/fresh_proc", "disk/own_tmpfs"),
        beside=("system-call filter", "Landlock", "read-only /proc"),
    ),
)  # fmt: skip
VIEW = (
    Protection(
        "view of files",
        ((_NATIVE, "        *(bound(plan, needs.readable, needs.packages, None) if",
          '        *[("bind", path, path, ()) for path in ("/var", "/root", "/home", "/run", "/etc/shadow")],\n        *(bound(plan, needs.readable, needs.packages, None) if'),),
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
        self._is_guest = True  # files made""", "        self._is_guest = True  # files made"),),
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
        (("warden/supervisor.py", "return self._uids.take()", "return 0"),),
        ("filesystem_read/private_file", "filesystem_write/setuid_left"),
    ),
    Protection("session of its own", ((_STAGE, """        os.setsid()
        os.umask(0o022)
        processes.new_session_keyring()
        if self._users >= 0:""", """        os.umask(0o022)
        processes.new_session_keyring()
        if self._users >= 0:"""),), ("process_view/process_group",)),
    Protection("session keyring of its own", ((_STAGE, """        processes.new_session_keyring()
        if self._users >= 0:""", "        if self._users >= 0:"),), _KEYS, beside=("system-call filter",)),
    # A change of uid has the same effect, unless the host lets such processes leave cores (proc(5), suid_dumpable).
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
    Protection("environment of the warden", (("client/warden_process.py", "env=_environment()", "env=None"),),
               ("environment",), beside=("environment of the guest",)),
    Protection("descriptors closed at the warden's start",
               (("client/warden_process.py", "pass_fds=(theirs.fileno(),),", "close_fds=not theirs.set_inheritable(True) and False,"),),
               ("filesystem_read/leaked_file", "filesystem_read/leaked_folder"),
               beside=("descriptors closed in the instance", "descriptors closed at execve")),
    Protection("descriptors closed in the instance",
               (("linux/processes.py", "    low, number = 0, libc.NUMBERS", "    return\n    low, number = 0, libc.NUMBERS"),),
               ("filesystem_read/leaked_file", "filesystem_read/leaked_folder"),
               beside=("descriptors closed at the warden's start", "descriptors closed at execve")),
    Protection("descriptors closed at execve", ((_INSIDE, "        processes.close_on_exec_from(4)\n", ""),),
               ("filesystem_read/leaked_file", "filesystem_read/leaked_folder"),
               beside=("descriptors closed at the warden's start", "descriptors closed in the instance")),
)  # fmt: skip
ALL = (
    *NAMESPACES, *VIEW, *RIGHTS, FILTER, SOCKETS, UNCOUNTED, *RULE_GROUPS, *ARGUMENT_RULES, *INHERITANCE, *RESOURCE_LIMITS, *GROUPS, *WATCHERS,
    *COLLECTOR, *WAY_OUT,
)  # fmt: skip
BY_NAME = {item.name: item for item in ALL}
