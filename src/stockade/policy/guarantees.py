"""Guarantees of a sandbox, and the strength with which each is held."""

from __future__ import annotations

from enum import Enum, StrEnum

from stockade.core.dataclass import dataclass


class Guarantee(StrEnum):
    """A promise about a run: a limit that it cannot exceed, or a wall that it cannot cross."""

    CPU_TIME = "cpu_time"
    CPU_RATE = "cpu_rate"
    WALL_TIME = "wall_time"
    MEMORY = "memory"
    SWAP = "swap"
    PROCESSES = "processes"
    OPEN_FILES = "open_files"
    FILE_SIZE = "file_size"
    DISK = "disk"
    OUTPUT = "output"
    OPERATIONS = "operations"
    STACK = "stack"
    ADDRESS_SPACE = "address_space"
    DATA = "data"
    IO_READ = "io_read"
    FILESYSTEM_READ = "filesystem_read"
    FILESYSTEM_WRITE = "filesystem_write"
    NETWORK = "network"
    PROCESS_VIEW = "process_view"
    IPC = "ipc"
    PRIVILEGES = "privileges"
    SYSCALLS = "syscalls"
    ENVIRONMENT = "environment"
    NO_SURVIVORS = "no_survivors"


LIMITS: tuple[Guarantee, ...] = tuple(Guarantee)[: tuple(Guarantee).index(Guarantee.FILESYSTEM_READ)]
"""The guarantees with a figure in ``Policy.limits``."""


class Strength(StrEnum):
    """The kind of component that enforces a guarantee, weakest first."""

    ABSENT = "absent"
    COOPERATIVE = "cooperative"
    SUPERVISOR = "supervisor"
    RUNTIME = "runtime"
    KERNEL = "kernel"
    HYPERVISOR = "hypervisor"

    def holds(self, floor: Strength) -> bool:
        """Return whether this strength is at least ``floor``."""
        return _ORDER[self] >= _ORDER[floor]


_ORDER = {strength: rank for rank, strength in enumerate(Strength)}


class Isolation(Enum):
    """The wall between guest and host, weakest first."""

    INTERPRETER = "interpreter"
    PROCESS = "process"
    NAMESPACES = "namespaces"
    USER_KERNEL = "user_kernel"
    WASM = "wasm"
    OWN_KERNEL = "own_kernel"

    @property
    def rank(self) -> int:
        """Return the position in the order of strength."""
        return tuple(Isolation).index(self)

    def at_least(self, floor: Isolation) -> bool:
        """Return whether this isolation is at least as strong as ``floor``."""
        return self.rank >= floor.rank


@dataclass(frozen=True)
class Enforcement:
    """A line of a receipt: the mechanism that holds a guarantee, its strength, and a note."""

    mechanism: str
    strength: Strength
    note: str = ""

    def as_json(self) -> dict[str, str]:
        """Return the entry as JSON-compatible data."""
        return {"mechanism": self.mechanism, "strength": self.strength.value, "note": self.note}

    @classmethod
    def absent(cls, why: str) -> Enforcement:
        """Return the entry of a guarantee that nothing holds. ``why`` gives the reason and the remedy."""
        return cls("none", Strength.ABSENT, why)


FLOORS: dict[Guarantee, Strength] = dict.fromkeys(Guarantee, Strength.KERNEL) | {
    # A supervisor must enforce these: with a timer, a counter that it reads, and bytes that it counts.
    Guarantee.CPU_TIME: Strength.SUPERVISOR,
    Guarantee.WALL_TIME: Strength.SUPERVISOR,
    Guarantee.OUTPUT: Strength.SUPERVISOR,
    Guarantee.OPERATIONS: Strength.COOPERATIVE,  # counted where the guest's own code runs
}
"""The weakest strength that satisfies a policy by default (``Policy.accept`` lowers it)."""
