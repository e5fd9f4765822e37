"""The events that a worker keeps of live runs: bounded, numbered, and for one key."""

import asyncio
import json

import pytest

from stockade.policy.guarantees import Guarantee
from stockade.runs.events import LimitReached, Output, Started, UsageReport
from stockade.service import journals
from stockade.service.events import as_message, loaded
from stockade.service.journals import Journal, Journals
from stockade.service.living.requests import Call

EVENTS = [
    Started(),
    Output(1, 0, 'é\n"x\r\n\r\ndata: y'.encode()),
    Output(2, 7, b"\xff\n"),
    UsageReport(0.5, 1.5, 4096, None, 3),
    LimitReached(Guarantee.MEMORY, "near", 0.8, 1.0),
]


@pytest.mark.parametrize("event", EVENTS)
def test_event_is_one_message_and_comes_back_equal(event):
    lines = as_message(event, "a.1").decode().split("\n")
    assert (len(lines), lines[0], lines[3:]) == (5, "id: a.1", ["", ""])
    assert loaded(lines[1].removeprefix("event: "), json.loads(lines[2].removeprefix("data: "))) == event


def test_journal_keeps_the_latest_events_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(journals, "_MOST_BYTES", 10_000)

    async def main():
        journal = Journal(1)
        for at in range(1000):
            journal.add(Output(1, at * 100, b"x" * 100))
        journal.end()
        found, last = b"", ""
        while True:
            last, piece = await journal.after(last, 0)
            if not piece:
                return found, last
            found += piece

    found, last = asyncio.run(main())
    assert len(found) <= 10_000
    assert b'"at":99900,' in found
    assert last.endswith(".1000")


def call(run, key=1, seconds=0.0, after=""):
    return Call(do="events", holder="", key=key, key_name="", run=run, seconds=seconds, after=after)


def test_events_are_for_the_key_of_the_run_and_waited_for():
    async def main():
        kept = Journals()
        ask = kept.operations["events"]
        waiting = asyncio.create_task(ask(call("r", seconds=30), b""))
        await asyncio.sleep(0)
        journal = kept.begin("r", 1)
        await asyncio.sleep(0)
        journal.add(Started())
        answer, content = await waiting
        assert (answer.status, content.count(b"event: started")) == (200, 1)
        assert (await ask(call("r", key=2), b""))[0].status == 204
        last = content.partition(b"\n")[0].decode()
        assert (await ask(call("r", after=last), b""))[0].status == 204
        kept.begin("r", 1).add(Started())  # the run begins again
        assert (await ask(call("r", after=last), b""))[0].status == 200

    asyncio.run(main())


def test_only_the_last_runs_that_ended_are_kept():
    async def main():
        kept = Journals()
        running = kept.begin("running", 1)
        running.add(Started())
        for number in range(100):
            journal = kept.begin(str(number), 1)
            journal.add(Started())
            journal.end()
        found = [(await kept.operations["events"](call(run), b""))[0].status for run in ("running", "0", "80", "99")]
        assert found == [200, 204, 204, 200]
        assert len(kept._of) < 20

    asyncio.run(main())
