"""What a sandbox can promise, and how strongly a promise is held."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class Guarantee(StrEnum):
    """A promise about a run: a limit that it cannot pass, or a wall that it cannot look over."""

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
"""The guarantees that are figures in ``Policy.limits``."""


class Strength(StrEnum):
    """Who holds a guarantee, weakest first."""

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
    """What stands between the guest and the host, weakest first."""

    INTERPRETER = "interpreter"
    PROCESS = "process"
    NAMESPACES = "namespaces"
    WASM = "wasm"
    OWN_KERNEL = "own_kernel"

    @property
    def rank(self) -> int:
        """Return the place in this order."""
        return tuple(Isolation).index(self)

    def at_least(self, floor: Isolation) -> bool:
        """Return whether this is as strong as ``floor``."""
        return self.rank >= floor.rank


@dataclass(frozen=True)
class Enforcement:
    """One line of a receipt: which mechanism holds a guarantee, how strongly, and what to know about it."""

    mechanism: str
    strength: Strength
    note: str = ""

    def as_json(self) -> dict[str, str]:
        """Return the entry as JSON-compatible data."""
        return {"mechanism": self.mechanism, "strength": self.strength.value, "note": self.note}

    @classmethod
    def absent(cls, why: str) -> Enforcement:
        """Return the entry of a guarantee that nothing holds, with the reason and the way to get it."""
        return cls("none", Strength.ABSENT, why)


FLOORS: dict[Guarantee, Strength] = dict.fromkeys(Guarantee, Strength.KERNEL) | {
    # Watched by nature: a timer, a counter that is read, and bytes that are counted as they pass.
    Guarantee.CPU_TIME: Strength.SUPERVISOR,
    Guarantee.WALL_TIME: Strength.SUPERVISOR,
    Guarantee.OUTPUT: Strength.SUPERVISOR,
    Guarantee.OPERATIONS: Strength.COOPERATIVE,  # counted where the guest's own code runs
}
"""The weakest strength that satisfies a policy which says nothing else (``Policy.accept`` lowers it)."""
