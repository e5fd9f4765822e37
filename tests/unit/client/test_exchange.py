"""The core of both faces, without any I/O: what goes out, what comes back, and in which order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from stockade.client.exchange import Exchange, introduction
from stockade.client.stream_buffer import StreamBuffer
from stockade.core.errors import JobError, ProtocolError
from stockade.core.launch import Launch, Watch
from stockade.policy.guarantees import Guarantee
from stockade.runs.events import Finished, LimitReached, Output, Started, UsageReport
from stockade.runs.result import Outcome
from stockade.warden import protocol

REPORT = {
    "failure": None, "cause": None, "started": True, "oom_kills": 0, "oom_outside": 0, "forks_refused": 0, "status": 0,
    "cpu_seconds": 0.0, "cpu_source": "cgroup", "wall_seconds": 0.0, "peak_memory": None, "peak_sockets": None, "locks": 0, "peak_processes": None,
    "past_soft_memory": None, "engine": b"", "disk_free": None, "inodes_free": None, "channel": b"", "channel_overflow": False,
    "denials": [], "denials_truncated": False, "collect_trouble": "", "output": [0, 0], "tails": [b"", b""],
}  # fmt: skip


class Anything:
    """A plan that asks for no limit."""

    backend, enforcement = "x", {}
    policy = SimpleNamespace(limits=SimpleNamespace(figure=lambda _: None, soft=None), asks=lambda _: False)


def exchange(output=None, *, live=False, report_seconds=None, **how):
    watch = Watch(output_bytes=output)
    launch = Launch(argv=("true",), environment={}, steps=(), watch=watch)
    words, _ = introduction(launch, {}, live=live, report_seconds=report_seconds)
    return Exchange(launch, cast(Any, Anything()), outgoing=words, **how)


def sent(conversation):
    messages = list(protocol.Decoder().feed(bytes(conversation.outgoing)))
    conversation.outgoing.clear()
    return messages


def said(conversation, kind, **fields):
    return list(conversation.feed(protocol.encode(kind, **fields)))


def test_the_launch_carries_what_a_stream_asks_for():
    ((kind, fields),) = sent(exchange(live=True, report_seconds=0.5))
    assert (kind, fields["watch"]["live"], fields["watch"]["report_seconds"]) == ("launch", True, 0.5)
    ((_, plain),) = sent(exchange())
    assert (plain["watch"]["live"], plain["watch"]["report_seconds"]) == (False, None)


def test_events_are_what_the_warden_says():
    one = exchange()
    assert said(one, "started") == [Started()]
    assert said(one, "output", stream=2, at=3, data=b"x") == [Output(2, 3, b"x")]
    assert said(one, "limit", guarantee="memory", state="near", used=8, figure=10) == [
        LimitReached(Guarantee.MEMORY, "near", 8, 10)
    ]
    usage = {"cpu_seconds": 1.0, "wall_seconds": 2.0, "memory": 3, "processes": 4, "output": 5}
    assert said(one, "usage", **usage) == [UsageReport(**usage)]
    (last,) = said(one, "exited", report=REPORT)
    assert isinstance(last, Finished)
    assert last.result is one.result


def test_the_end_comes_once_whatever_follows():
    one = exchange()
    said(one, "exited", report=REPORT)
    assert said(one, "refused", message="no") == []
    assert list(one.feed(b"")) == []
    assert one.result.outcome is Outcome.COMPLETED


def test_a_warden_that_ends_is_a_sandbox_that_failed():
    one = exchange()
    (last,) = one.feed(b"")
    assert last.result.outcome is Outcome.SANDBOX_FAILED
    assert not one.reusable


@pytest.mark.parametrize("fields", [{"kind": "bogus"}, {"kind": "limit", "guarantee": "luck"}, {"kind": "output"}])
def test_nonsense_is_told(fields):
    with pytest.raises(ProtocolError):
        said(exchange(), **fields)


def test_the_tail_comes_before_the_end_as_far_as_it_has_not_come():
    one = exchange(output=10, live=True)
    said(one, "output", stream=1, at=0, data=b"0123456789")
    report = REPORT | {"output": [13, 0], "tails": [b"89abc", b""]}
    rest, last = said(one, "exited", report=report)
    assert rest == Output(1, 10, b"abc")
    assert (last.result.stdout_bytes, last.result.stdout_omitted) == (b"0123489abc", 3)
    two = exchange(output=10, live=True)
    said(two, "output", stream=1, at=0, data=b"0123456789")
    rest, _ = said(two, "exited", report=report | {"output": [99, 0]})
    assert rest == Output(1, 94, b"89abc")


def test_what_is_kept_is_bounded_where_nothing_limits_output():
    one = exchange(keep=10)
    for at in range(0, 1000, 100):
        said(one, "output", stream=1, at=at, data=bytes([65 + at // 100]) * 100)
    (last,) = said(one, "exited", report=REPORT | {"output": [1000, 0]})
    assert (last.result.stdout_bytes, last.result.stdout_omitted) == (b"AAAAAJJJJJ", 990)
    assert StreamBuffer(Watch(), None).tail(b"") == b""


def test_input_is_sent_as_far_as_it_is_taken():
    one = exchange(interactive=True)
    sent(one)
    assert not one.wants_input
    one.write(b"x" * 3_000_000)
    first = b"".join(fields["data"] for _, fields in sent(one))
    assert 1 << 19 <= len(first) <= (1 << 19) + (1 << 16)  # the warden never stops listening
    assert one.input_waiting == 3_000_000
    said(one, "fed", count=300_000)
    second = b"".join(fields["data"] for _, fields in sent(one))
    assert 200_000 < len(second) < 400_000
    one.close_input()
    said(one, "fed", count=len(first + second))
    while one.input_waiting > 1 << 19:
        said(one, "fed", count=one._sent)
    assert sent(one)[-1] == ("stdin", {"data": b""})


def test_input_that_is_read_keeps_to_the_same_bound():
    one = exchange()
    while one.wants_input:
        one.send_input(b"x" * (1 << 16))
    assert one.input_waiting == 1 << 19
    said(one, "fed", count=1 << 17)
    assert one.wants_input


def test_writing_is_for_who_asked_for_it_and_has_not_closed():
    with pytest.raises(JobError, match="interactive=True"):
        exchange().write(b"x")
    one = exchange(interactive=True)
    one.close_input()
    with pytest.raises(JobError, match="closed"):
        one.write(b"x")


def test_nothing_goes_out_after_a_cancel():
    one = exchange(interactive=True)
    one.write(b"x")
    one.cancel()
    one.ask("pause")
    one.close_input()
    assert (bytes(one.outgoing), one.cancelled, one.reusable) == (b"", True, False)


def test_what_is_asked_goes_out_in_order():
    one = exchange()
    sent(one)
    one.ask("pause")
    one.ask("signal", number=15)
    one.ask("resume")
    assert sent(one) == [("pause", {}), ("signal", {"number": 15}), ("resume", {})]
