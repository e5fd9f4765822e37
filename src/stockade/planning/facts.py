"""Host facts: what the probe found, as a frozen value that plans are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class HostFacts:
    """What this host offers. Each field was tried, not guessed."""

    kernel: str
    machine: str
    cpus: int
    uid: int
    namespaces: bool
    privileged: bool
    """Namespaces can be made with the host's own root; otherwise a user namespace comes first."""
    namespace_reasons: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    """The kernel's settings on user namespaces, those that it has."""
    filtered: bool = False
    """Somebody has put a system-call filter around this program."""
    covered: tuple[str, ...] = ()
    """What is mounted over parts of /proc."""
    cgroups: Mapping[str, int] = field(default_factory=dict)
    """Each controller that can be used here, with its cgroup version. Beside ``memory`` stand the kinds that it counts
    here: ``swap``, ``sockets`` (buffers of TCP and UDP) and ``kernel`` (what the kernel allocates for a process)."""
    cgroup_paths: Mapping[str, str] = field(default_factory=dict)
    cgroup_lost: Mapping[str, str] = field(default_factory=dict)
    """Each controller that is mounted and cannot be used, with the reason."""
    swap: bool = False
    landlock: int = 0
    seccomp: bool = False
    off_disk: tuple[str, ...] = ()
    """Where something is mounted whose bytes come from no disk that a control group can slow down, nor from memory."""
    open_files: int = 1024
    no_overlay: str = ""
    """Why a run cannot have an overlay file system; empty where it can."""
    core_handler: str = ""
    """How the kernel hands a core to a handler: ``pipe`` or ``socket``; empty where it writes a file."""
    core_limit: int = 1
    """The limit on core files under which runs live: 1 starts no handler behind a pipe, 0 does."""
    groups: int = 0
    """Supplementary groups of the caller, which only root can shed."""
    system: tuple[tuple[str, str], ...] = ()
    """The system's own folders and files, each with its link target or an empty text."""

    @classmethod
    def from_probe(cls, data: Mapping[str, Any]) -> HostFacts:
        """Return the facts in what the probe reports."""
        fields = {key: value for key, value in data.items() if key != "hierarchies"}
        found = [(name, version, path) for version, path, names in data["hierarchies"] for name in names]
        fields["covered"] = tuple(data["covered"])
        fields["off_disk"] = tuple(data["off_disk"])
        fields["system"] = tuple((path, target) for path, target in data["system"])
        return cls(
            **fields,
            cgroups={name: version for name, version, _ in found},
            cgroup_paths={name: path for name, _, path in found},
        )

    @property
    def counts_cpu(self) -> bool:
        """Return whether a control group counts the CPU time of a whole run."""
        return "cpuacct" in self.cgroups or self.cgroups.get("cpu") == 2

    @property
    def counts_tasks_by_namespace(self) -> bool:
        """Return whether RLIMIT_NPROC counts within a user namespace: since Linux 5.14, commit 21d1c5e386bc."""
        return self.version >= (5, 14)

    @property
    def version(self) -> tuple[int, int]:
        """Return major and minor number of the kernel."""
        major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in self.kernel.split(".")[:2])
        return major, minor
