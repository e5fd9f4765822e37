"""Host facts: the result of the probe, as a frozen value for planning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from stockade.core.dataclass import dataclass


@dataclass(frozen=True)
class HostFacts:
    """The facilities of this host. Each field was tried, not guessed."""

    kernel: str
    machine: str
    cpus: int
    uid: int
    namespaces: bool
    privileged: bool
    """Whether the host's own root can create namespaces; otherwise a user namespace comes first."""
    namespace_reasons: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    """The kernel's settings for user namespaces, as far as this kernel has them."""
    filtered: bool = False
    """Whether a system-call filter already surrounds this program."""
    covered: tuple[str, ...] = ()
    """Mounts over parts of /proc."""
    cgroups: Mapping[str, int] = field(default_factory=dict)
    """Each usable controller, with its cgroup version.

    Beside ``memory``, the mapping has the kinds that it counts here: ``swap``, ``sockets`` (buffers of TCP and UDP) and
    ``kernel`` (memory that the kernel allocates for a process).
    """
    cgroup_paths: Mapping[str, str] = field(default_factory=dict)
    cgroup_lost: Mapping[str, str] = field(default_factory=dict)
    """Each controller that is mounted but unusable, with the reason."""
    swap: bool = False
    landlock: int = 0
    seccomp: bool = False
    off_disk: tuple[str, ...] = ()
    """Mount points of file systems that are neither in memory nor on a disk that a control group can slow down."""
    open_files: int = 1024
    no_overlay: str = ""
    """Why a run cannot have an overlay file system; empty if it can."""
    core_handler: str = ""
    """How the kernel passes a core to a handler: ``pipe`` or ``socket``; empty if it writes a file."""
    core_limit: int = 1
    """The limit on core files of every run: 1 starts no handler behind a pipe, 0 does."""
    groups: int = 0
    """The number of the caller's supplementary groups, which only root can drop."""
    system: tuple[tuple[str, str], ...] = ()
    """The system's folders and files, each with its link target or an empty text."""

    @classmethod
    def from_probe(cls, data: Mapping[str, Any]) -> HostFacts:
        """Return the facts of a probe's report."""
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
        """Return whether RLIMIT_NPROC counts each user namespace separately: since Linux 5.14, commit 21d1c5e386bc."""
        return self.version >= (5, 14)

    @property
    def version(self) -> tuple[int, int]:
        """Return the major and minor version of the kernel."""
        major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in self.kernel.split(".")[:2])
        return major, minor
