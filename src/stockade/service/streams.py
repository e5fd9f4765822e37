"""``RemoteStream`` and ``AsyncRemoteStream``: runs on a service, followed while they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stockade.runs.events import Event
from stockade.runs.result import Result
from stockade.service.stream_steps import StreamSteps

if TYPE_CHECKING:
    from stockade.service.async_client import AsyncClient
    from stockade.service.client import Client


class _Followed:
    """A run that is followed, for both clients."""

    _steps: StreamSteps

    def __del__(self) -> None:
        """Close the connection."""
        if hasattr(self, "_steps"):
            self._steps.drop()

    @property
    def result(self) -> Result:
        """The verdict. Raises ``JobError`` before the end of the run."""
        return self._steps.result


class RemoteStream(_Followed):
    """The events of a run on a service: an iterator and a context manager. ``Client.stream`` makes it.

    The events are those of ``Stream``. A run that begins again, since a worker of the service was lost, yields another
    ``Started``. A caller that is slow misses output, and finds its place in ``Output.at``. Leaving the context ends the
    run. One thread takes the events; any other may call ``cancel``.
    """

    def __init__(self, client: Client, steps: StreamSteps) -> None:
        """Use ``Client.stream``."""
        self._client, self._steps = client, steps
        client._complete(steps.begin())

    def __iter__(self) -> Iterator[Event]:
        """Return itself."""
        return self

    def __next__(self) -> Event:
        """Wait for the next event. Raises ``ServiceError`` if the service cannot be reached."""
        event = self._client._complete(self._steps.next())
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> RemoteStream:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run if it has not ended."""
        self.close()

    def cancel(self) -> None:
        """End the run. The verdict still comes, with the outcome ``cancelled``."""
        self._client._complete(self._steps.cancel())

    def close(self) -> None:
        """End the run if it has not ended. No more events come."""
        self._client._complete(self._steps.close())


class AsyncRemoteStream(_Followed):
    """``RemoteStream`` for asyncio. ``AsyncClient.stream`` makes it.

    The run begins with the first event or with ``async with``. Leaving the context ends the run.
    """

    def __init__(self, client: AsyncClient, steps: StreamSteps) -> None:
        """Use ``AsyncClient.stream``."""
        self._client, self._steps = client, steps
        self._cancelling: asyncio.Task[Any] | None = None

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return itself."""
        return self

    async def __anext__(self) -> Event:
        """Wait for the next event. Raises ``ServiceError`` if the service cannot be reached."""
        event = await self._client._complete(self._steps.next())
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> AsyncRemoteStream:
        """Begin the run."""
        await self._client._complete(self._steps.begin())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run if it has not ended."""
        await self.aclose()

    def cancel(self) -> None:
        """End the run, without a wait. The verdict still comes, with the outcome ``cancelled``."""
        self._cancelling = asyncio.ensure_future(self._client._complete(self._steps.cancel()))

    async def aclose(self) -> None:
        """End the run if it has not ended. No more events come."""
        if self._cancelling is not None:
            await asyncio.gather(self._cancelling, return_exceptions=True)
        await self._client._complete(self._steps.close())
