"""Channels of one agent: frames reach the interpreter whose number they have, and their bytes are bounded."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import pytest

from stockade import JobError
from stockade.api.sessions import channels
from stockade.api.sessions.channels import Channel, Channels


class FakeLink:
    """An agent that has already sent everything that it will send."""

    clock = staticmethod(time.monotonic)

    def __init__(self, *frames: tuple[bytes, bytes]) -> None:
        self.frames = deque(frames)
        self.sent: list[tuple[bytes, bytes]] = []
        self.closed = False

    def send(self, kind: bytes, payload: bytes) -> None:
        self.sent.append((kind, payload))

    def receive(self, deadline: float, _clock: Any) -> tuple[bytes, bytes]:
        if self.frames:
            return self.frames.popleft()
        time.sleep(max(0.0, deadline - time.monotonic()))
        raise TimeoutError

    def close(self) -> None:
        self.closed = True


def opened(link: Any, count: int, most: int = 100) -> list[Channel]:
    made = Channels(link, most=most)
    return [made.open() for _ in range(count)]


def soon() -> float:
    return time.monotonic() + 0.01


def test_frames_reach_the_channel_of_their_number_in_order() -> None:
    link = FakeLink(
        (b"o", b"\0\1for 1"), (b"o", b"\0\7for nobody"), (b"o", b"\0\0for 0"), (b"v", b"\0\1{}"), (b"o", b"\0")
    )
    first, second = opened(link, 2)
    assert first.receive(soon()) == (b"o", b"for 0")
    assert [second.receive(soon()) for _ in range(2)] == [(b"o", b"for 1"), (b"v", b"{}")]
    with pytest.raises(TimeoutError):
        first.receive(soon())
    second.send(b"R", {"source": "1"})
    assert link.sent == [(b"R", b'\0\1{"source": "1"}')]


def test_channel_that_is_read_never_fills_up() -> None:
    (channel,) = opened(FakeLink(*[(b"o", b"\0\0x")] * 1000), 1)
    assert [channel.receive(soon()) for _ in range(1000)] == [(b"o", b"x")] * 1000


def test_channels_have_a_last_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_NUMBERS", 2)
    first, _second = opened(FakeLink(), 2)
    with pytest.raises(JobError, match="2 interpreters have one origin, which is the most"):
        first.another()


@pytest.mark.parametrize("size", [0, 60])
def test_agent_that_floods_a_channel_nobody_reads_is_given_up(size: int) -> None:
    first, second = opened(FakeLink(*[(b"o", b"\0\1" + bytes(size))] * 3), 2)
    for channel in (first, second):
        with pytest.raises(ValueError, match="more messages than a cell can give back"):
            while True:
                channel.receive(soon())


def test_last_channel_closes_the_link() -> None:
    link = FakeLink((b"!", b"\0\0{}"), (b"z", b"\0\0"))
    first, second = opened(link, 2)
    first.close()
    assert (link.sent, link.closed) == ([(b"C", b"\0\0")], False)
    second.close()
    assert link.closed
    with pytest.raises(EOFError, match="the caller closed it"):
        second.receive(soon())


def test_agent_that_closes_no_channel_in_time_ends_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_CLOSE_SECONDS", 0.05)
    link = FakeLink()
    first, _second = opened(link, 2)
    first.close()
    assert link.closed


def test_channel_in_a_paused_sandbox_closes_without_waiting() -> None:
    class PausedLink(FakeLink):
        class clock:  # noqa: N801
            stands_still = True

    link = PausedLink()
    first, _second = opened(link, 2)
    first.close()
    assert (link.sent, link.closed) == ([(b"C", b"\0\0")], False)
