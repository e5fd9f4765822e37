"""The types that the library and the clients of a service share: whatever runs code, and what it returns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypedDict, TypeVar, Unpack

if TYPE_CHECKING:
    from stockade.runs.events import Event
    from stockade.runs.result import Result

Returned_co = TypeVar("Returned_co", covariant=True)


class PortableOptions(TypedDict, total=False):
    """Options of a run of a command that mean the same here and on a service. ``stockade.run`` describes each."""

    stdin: str | bytes | None
    files: Mapping[str, str | bytes] | None
    environment: Mapping[str, str] | None
    artifacts: Sequence[str]
    labels: Mapping[str, str] | None


class PortableRunOptions(PortableOptions, total=False):
    """Options of a run of source text that mean the same here and on a service."""

    language: str | None
    arguments: Sequence[str]


class RunsCode(Protocol[Returned_co]):
    """Whatever runs code, here or on a service: what is written for it can change where its runs go.

    ``Runner`` and ``Client`` are ``RunsCode[Result]``; ``AsyncRunner`` and ``AsyncClient`` are
    ``RunsCode[Awaitable[Result]]``. Type checkers alone use it.
    """

    def run(self, source: str | bytes, **options: Unpack[PortableRunOptions]) -> Returned_co:
        """Run source text."""

    def run_command(self, argv: Sequence[str], **options: Unpack[PortableOptions]) -> Returned_co:
        """Run a command."""


class StreamsCode(Protocol[Returned_co]):
    """Whatever runs code and tells what happens meanwhile, here or on a service.

    ``Runner`` and ``Client`` are ``StreamsCode[AnyStream]``; ``AsyncRunner`` and ``AsyncClient`` are
    ``StreamsCode[AnyAsyncStream]``. Type checkers alone use it.
    """

    def stream(self, source: str | bytes, **options: Unpack[PortableRunOptions]) -> Returned_co:
        """Run source text, and return its events while they happen."""

    def stream_command(self, argv: Sequence[str], **options: Unpack[PortableOptions]) -> Returned_co:
        """Run a command, and return its events while they happen."""


class _ControlsRun(Protocol):
    """The members that streams for asyncio and all others have in common."""

    @property
    def result(self) -> Result:
        """The verdict. Raises ``JobError`` before the end of the run."""

    def cancel(self) -> None:
        """End the run. The verdict still comes."""


class AnyStream(_ControlsRun, Protocol):
    """The events of a run, here or on a service: ``Stream`` or ``RemoteStream``. Type checkers alone use it."""

    def __iter__(self) -> Iterator[Event]:
        """Return itself."""

    def __next__(self) -> Event:
        """Wait for the next event."""

    def __enter__(self) -> AnyStream:
        """Return itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run if it has not ended."""

    def close(self) -> None:
        """End the run if it has not ended."""


class AnyAsyncStream(_ControlsRun, Protocol):
    """``AnyStream`` for asyncio: ``AsyncStream`` or ``AsyncRemoteStream``."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return itself."""

    async def __anext__(self) -> Event:
        """Wait for the next event."""

    async def __aenter__(self) -> AnyAsyncStream:
        """Begin the run."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run if it has not ended."""

    async def aclose(self) -> None:
        """End the run if it has not ended."""


class _ControlsTerminal(Protocol):
    """The methods that terminals for asyncio and all others have in common."""

    argv: tuple[str, ...]

    @property
    def returncode(self) -> int | None:
        """The exit status; ``None`` if no end is known yet."""

    def poll(self) -> int | None:
        """Return ``returncode``."""

    def resize(self, rows: int, columns: int) -> None:
        """Set the size."""

    def send_signal(self, number: int) -> None:
        """Send a signal to the first process."""

    def terminate(self) -> None:
        """Send SIGTERM to the first process."""


class AnyTerminal(_ControlsTerminal, Protocol):
    """A command at a terminal, here or on a service: ``Terminal`` or ``RemoteTerminal``. Type checkers alone use it."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hang up."""

    def read(self, size: int = 1 << 16, timeout: float | None = None) -> bytes:
        """Return bytes of the screen, and none at the end."""

    def write(self, data: bytes, timeout: float | None = None) -> None:
        """Type bytes."""

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end."""

    def kill(self) -> None:
        """End the command with everything that it started."""

    def close(self) -> None:
        """Hang up."""


class AnyAsyncTerminal(_ControlsTerminal, Protocol):
    """``AnyTerminal`` for asyncio: ``AsyncTerminal`` or ``AsyncRemoteTerminal``."""

    async def __aenter__(self) -> Self:
        """Return itself."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hang up."""

    async def read(self, size: int = 1 << 16, timeout: float | None = None) -> bytes:
        """Return bytes of the screen, and none at the end."""

    async def write(self, data: bytes, timeout: float | None = None) -> None:
        """Type bytes."""

    async def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end."""

    async def kill(self) -> None:
        """End the command with everything that it started."""

    async def close(self) -> None:
        """Hang up."""
