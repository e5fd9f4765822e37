"""The exchange without any I/O: messages to the warden, messages from it, and their order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from stockade.client.exchange import Exchange, introduction
from stockade.client.stream_buffer import StreamBuffer
from stockade.core.errors import JobError, ProtocolError
from stockade.core.launch import Launch, Watch
from stockade.policy.guarantees import Enforcement, Guarantee, Strength
from stockade.runs.events import Finished, LimitReached, Output, Started, UsageReport
from stockade.runs.result import Outcome
from stockade.warden import protocol

REPORT = {
    "failure": None, "cause": None, "started": True, "oom_kills": 0, "oom_outside": 0, "forks_refused": 0, "status": 0,
    "cpu_seconds": 0.0, "cpu_source": "cgroup", "wall_seconds": 0.0, "peak_memory": None, "peak_sockets": None, "locks": 0, "peak_processes": None,
    "past_soft_memory": None, "engine": b"", "disk_free": None, "inodes_free": None, "channel": b"", "channel_overflow": False,
    "denials": [], "denials_truncated": False, "collect_trouble": "", "output": [0, 0], "tails": [b"", b""],
}  # fmt: skip


class Plan:
    """Asks for no limit."""

    backend, enforcement = "x", dict.fromkeys(Guarantee, Enforcement("none", Strength.ABSENT))
    policy = SimpleNamespace(limits=SimpleNamespace(figure=lambda _: None, soft=None), asks=lambda _: False)


def exchange(output=None, *, live=False, report_seconds=None, **how):
    watch = Watch(output_bytes=output)
    launch = Launch(argv=("true",), environment={}, steps=(), watch=watch)
    first, _ = introduction(launch, {}, live=live, report_seconds=report_seconds)
    return Exchange(launch, cast(Any, Plan()), outgoing=first, **how)


def sent(run):
    messages = list(protocol.Decoder().feed(bytes(run.outgoing)))
    run.outgoing.clear()
    return messages


def received(run, kind, **fields):
    return list(run.feed(protocol.encode(kind, **fields)))


def test_introduction_carries_stream_options():
    ((kind, fields),) = sent(exchange(live=True, report_seconds=0.5))
    assert (kind, fields["watch"]["live"], fields["watch"]["report_seconds"]) == ("launch", True, 0.5)
    ((_, plain),) = sent(exchange())
    assert (plain["watch"]["live"], plain["watch"]["report_seconds"]) == (False, None)


def test_exchange_turns_messages_into_events():
    run = exchange()
    assert received(run, "started") == [Started()]
    assert received(run, "output", stream=2, at=3, data=b"x") == [Output(2, 3, b"x")]
    assert received(run, "limit", guarantee="memory", state="near", used=8, figure=10) == [
        LimitReached(Guarantee.MEMORY, "near", 8, 10)
    ]
    usage = {"cpu_seconds": 1.0, "wall_seconds": 2.0, "memory": 3, "processes": 4, "output": 5}
    assert received(run, "usage", **usage) == [UsageReport(**usage)]
    (last,) = received(run, "exited", report=REPORT)
    assert isinstance(last, Finished)
    assert last.result is run.result


def test_exchange_after_the_end_ignores_messages():
    run = exchange()
    received(run, "exited", report=REPORT)
    assert received(run, "refused", message="no") == []
    assert list(run.feed(b"")) == []
    assert run.result.outcome is Outcome.COMPLETED


def test_exchange_lost_warden_means_sandbox_failed():
    run = exchange()
    (last,) = run.feed(b"")
    assert last.result.outcome is Outcome.SANDBOX_FAILED
    assert not run.reusable


@pytest.mark.parametrize("fields", [{"kind": "bogus"}, {"kind": "limit", "guarantee": "luck"}, {"kind": "output"}])
def test_exchange_malformed_message_raises(fields):
    with pytest.raises(ProtocolError):
        received(exchange(), **fields)


def test_exchange_yields_the_missing_tail_before_the_end():
    run = exchange(output=10, live=True)
    received(run, "output", stream=1, at=0, data=b"0123456789")
    report = REPORT | {"output": [13, 0], "tails": [b"89abc", b""]}
    rest, last = received(run, "exited", report=report)
    assert rest == Output(1, 10, b"abc")
    assert (last.result.stdout_bytes, last.result.stdout_omitted) == (b"0123489abc", 3)
    other = exchange(output=10, live=True)
    received(other, "output", stream=1, at=0, data=b"0123456789")
    rest, _ = received(other, "exited", report=report | {"output": [99, 0]})
    assert rest == Output(1, 94, b"89abc")


def test_exchange_without_output_limit_keeps_a_bounded_amount():
    run = exchange(keep=10)
    for at in range(0, 1000, 100):
        received(run, "output", stream=1, at=at, data=bytes([65 + at // 100]) * 100)
    (last,) = received(run, "exited", report=REPORT | {"output": [1000, 0]})
    assert (last.result.stdout_bytes, last.result.stdout_omitted) == (b"AAAAAJJJJJ", 990)
    assert StreamBuffer(Watch(), None).tail(b"") == b""


def test_exchange_sends_input_as_the_guest_takes_it():
    run = exchange(interactive=True)
    sent(run)
    assert not run.wants_input
    run.write(b"x" * 3_000_000)
    first = b"".join(fields["data"] for _, fields in sent(run))
    assert 1 << 19 <= len(first) <= (1 << 19) + (1 << 16)  # the warden never stops listening
    assert run.input_waiting == 3_000_000
    received(run, "fed", count=300_000)
    second = b"".join(fields["data"] for _, fields in sent(run))
    assert 200_000 < len(second) < 400_000
    run.close_input()
    received(run, "fed", count=len(first + second))
    while run.input_waiting > 1 << 19:
        received(run, "fed", count=run._sent)
    assert sent(run)[-1] == ("stdin", {"data": b""})


def test_exchange_bounds_input_from_a_file():
    run = exchange()
    while run.wants_input:
        run.send_input(b"x" * (1 << 16))
    assert run.input_waiting == 1 << 19
    received(run, "fed", count=1 << 17)
    assert run.wants_input


def test_exchange_write_needs_open_interactive_input():
    with pytest.raises(JobError, match="interactive=True"):
        exchange().write(b"x")
    run = exchange(interactive=True)
    run.close_input()
    with pytest.raises(JobError, match="closed"):
        run.write(b"x")


def test_exchange_after_cancel_sends_nothing():
    run = exchange(interactive=True)
    run.write(b"x")
    run.cancel()
    run.ask("pause")
    run.close_input()
    assert (bytes(run.outgoing), run.cancelled, run.reusable) == (b"", True, False)


def test_exchange_sends_requests_in_order():
    run = exchange()
    sent(run)
    run.ask("pause")
    run.ask("signal", number=15)
    run.ask("resume")
    assert sent(run) == [("pause", {}), ("signal", {"number": 15}), ("resume", {})]


def test_exchange_refuses_a_signal_that_reaches_no_guest():
    run = exchange(no_signals_because="it is hidden; use cancel")
    sent(run)
    with pytest.raises(JobError, match="no signal reaches this guest: it is hidden; use cancel"):
        run.ask("signal", number=15)
    run.ask("pause")
    assert sent(run) == [("pause", {})]
