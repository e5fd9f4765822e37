"""The figures of a policy: resource limits, and limits that interpreters apply to themselves."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema

from stockade.core.units import (
    MOST_FRAMES,
    UNLIMITED,
    format_size,
    parse_cores,
    parse_count,
    parse_operations,
    parse_seconds,
    parse_size,
)
from stockade.policy.guarantees import Guarantee
from stockade.policy.parts.base import Part
from stockade.policy.profiles import DEFAULT_LIMITS

Unlimited = Literal["unlimited"]


def _at_least(least: float, words: str) -> AfterValidator:
    def check(value: Any) -> Any:
        if value != UNLIMITED and value < least:
            raise ValueError(f"must be at least {words}")
        return value

    return AfterValidator(check)


def _at_most(most: int, reason: str) -> AfterValidator:
    def check(value: Any) -> Any:
        if value != UNLIMITED and value > most:
            raise ValueError(f"must be at most {most:,}: {reason}")
        return value

    return AfterValidator(check)


def _cap(description: str) -> Any:
    return Field(default=UNLIMITED, description=f"{description}; on the backend 'metered' alone")


def _limit(name: str, description: str) -> Any:
    figure = DEFAULT_LIMITS[name]
    return Field(default=UNLIMITED if figure is None else figure, description=description)


def _written(kind: str, *examples: str | float) -> WithJsonSchema:
    schema: dict[str, Any] = {"anyOf": [{"type": kind, "minimum": 0}, {"type": "string"}]}
    return WithJsonSchema(schema | {"examples": [*examples, UNLIMITED]})


def _below_memory(value: Any, info: ValidationInfo) -> Any:
    memory = info.data.get("memory", UNLIMITED)
    if UNLIMITED not in (value, memory) and value >= memory:
        raise ValueError(f"must be below limits.memory, {format_size(memory)}, at which the run ends")
    return value


_Size = Annotated[int | Unlimited, BeforeValidator(parse_size), _written("integer", "64MiB", 65536)]
_Count = Annotated[int | Unlimited, BeforeValidator(parse_count), _written("integer", 10)]
_Operations = Annotated[int | Unlimited, BeforeValidator(parse_operations), _written("integer", 1_000_000)]
_Seconds = Annotated[float | Unlimited, BeforeValidator(parse_seconds), _written("number", "1.5s", 2)]
_Cores = Annotated[float | Unlimited, BeforeValidator(parse_cores), _written("number", 0.5)]


class Limits(Part):
    """Resource limits of the whole process tree. An unset field has the default profile's figure."""

    cpu_time: Annotated[_Seconds, _at_least(0.01, "10 ms")] = _limit(
        "cpu_time", "CPU seconds of the whole process tree"
    )
    cpu_rate: Annotated[_Cores, _at_least(0.01, "0.01 cores")] = _limit(
        "cpu_rate", "cores that the tree may use at the same time"
    )
    wall_time: Annotated[_Seconds, _at_least(0.01, "10 ms")] = _limit(
        "wall_time", "seconds of real time from the start of the program"
    )
    memory: Annotated[_Size, _at_least(4 * 2**20, "4 MiB: a process needs that much to start")] = _limit(
        "memory", "bytes of memory of the whole tree, including files in memory"
    )
    swap: _Size = _limit("swap", "bytes of swap, in addition to the memory")
    processes: Annotated[_Count, _at_least(1, "1")] = _limit(
        "processes", "processes and threads at the same time, including the program's first one"
    )
    open_files: Annotated[_Count, _at_least(4, "4: three are standard input and output")] = _limit(
        "open_files", "open file descriptors of each process"
    )
    file_size: _Size = _limit("file_size", "bytes of the largest file that the guest may write")
    disk: Annotated[_Size, _at_least(2**16, "64 KiB")] = _limit(
        "disk", "bytes in all writable folders of the sandbox together"
    )
    output: _Size = _limit("output", "bytes of standard output that are kept, and as many of standard error")
    operations: Annotated[_Operations, _at_least(1, "1")] = _limit(
        "operations", "executed lines and loop iterations of the job's own code, in Python and Ruby"
    )
    stack: Annotated[_Size, _at_least(2**16, "64 KiB")] = _limit("stack", "bytes of the main thread's stack")
    soft_memory: Annotated[_Size, _at_least(2**16, "64 KiB"), AfterValidator(_below_memory)] = Field(
        default=UNLIMITED,
        description="bytes of memory of the whole tree, below 'memory'; a run that passes it continues, with an event",
    )
    address_space: Annotated[_Size, _at_least(2**24, "16 MiB: a process maps that much to start")] = Field(
        default=UNLIMITED,
        description="bytes of address space of each process (RLIMIT_AS), used or not; breaks programs that reserve "
        "much and use little: V8, the JVM, Go, wasm engines",
    )
    data: Annotated[_Size, _at_least(2**22, "4 MiB: a process needs that much to start")] = Field(
        default=UNLIMITED,
        description="bytes of private writable memory of each process (RLIMIT_DATA): heap, mappings, threads' stacks",
    )

    io_read: Annotated[_Size, _at_least(2**16, "64 KiB a second")] = Field(
        default=UNLIMITED,
        description="bytes per second that the tree may read from each disk, not counting the page cache",
    )

    def figure(self, guarantee: Guarantee) -> float | None:
        """Return the figure of one limit, or ``None`` if ``"unlimited"`` lifted it."""
        value = getattr(self, guarantee.value)
        return None if value == UNLIMITED else value

    @property
    def soft(self) -> int | None:
        """Return the bytes of the soft memory limit, or ``None`` if it is not set."""
        return None if self.soft_memory == UNLIMITED else self.soft_memory


class Languages(Part):
    """Limits that interpreters apply to themselves: help for well-meaning code, not a guarantee.

    The last four are caps on a script of the backend ``metered``. Other backends refuse a policy that sets one.
    """

    regexp_timeout: Annotated[_Seconds, _at_least(0.001, "1 ms")] = Field(
        default=UNLIMITED, description="seconds that one match of a regular expression may take, in Ruby 3.2 or newer"
    )

    older_ruby: Literal["refuse", "run"] = Field(
        default="refuse", description="what happens under a regexp_timeout to Ruby before 3.2, which cannot apply it"
    )

    heap_objects: Annotated[_Operations, _at_least(1, "1")] = _cap("memory blocks that a script may hold")
    frames: Annotated[_Operations, _at_least(1, "1"), _at_most(MOST_FRAMES, "deeper calls can end CPython's stack")] = (
        _cap("depth of a script's calls")
    )
    symbols: Annotated[_Operations, _at_least(1, "1")] = _cap("distinct names that a script may introduce")
    value_bytes: Annotated[_Size, _at_least(1, "1")] = _cap("bytes of one text, integer or container of a script")

    @property
    def caps(self) -> dict[str, int]:
        """Return the caps on a metered script by name, without those that are unlimited."""
        found = {name: getattr(self, name) for name in ("heap_objects", "frames", "symbols", "value_bytes")}
        return {name: figure for name, figure in found.items() if figure != UNLIMITED}

    @property
    def seconds(self) -> float | None:
        """Return the figure of ``regexp_timeout``, or ``None`` if it is unlimited."""
        return None if self.regexp_timeout == UNLIMITED else self.regexp_timeout
