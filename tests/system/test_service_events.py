"""Events of runs over HTTP: real runs, followed by server-sent events and by the clients, and attacks on both."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
from contextlib import contextmanager, suppress

import pytest
from tests.support.service import is_ready, served, wait_for

import stockade
from stockade import Finished, Guarantee, LimitReached, Output, Started

STEPS = "import sys\nfor n in (1, 2):\n    print(n, flush=True)\n    print('é', file=sys.stderr, flush=True)\n    sys.stdin.readline()"
WAITS = "import time\nprint('on', flush=True)\ntime.sleep(60)"
FLOOD = "import sys\nfor _ in range(8): sys.stdout.write('x' * (1 << 20))\nsys.stdout.flush()\nprint('last')"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    ceiling = folder / "ceiling.toml"
    ceiling.write_text('[limits]\noutput = "1GiB"\n')
    yield from served(folder / "data", "--jobs", "4", "--ceiling", str(ceiling))


@pytest.fixture(scope="module")
def client(service):
    with stockade.Client(f"http://{service.address}", service.key) as made:
        yield made


@contextmanager
def following(service, run, last="", key=None):
    """Yield the answer to a request for the events of a run."""
    host, _, port = service.address.partition(":")
    connection = http.client.HTTPConnection(service.address)
    connection.sock = socket.socket()
    connection.sock.settimeout(60)
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that the kernel keeps little
    connection.sock.connect((host, int(port)))
    headers = {"X-API-Key": service.key if key is None else key, "Last-Event-ID": last}
    connection.request("GET", f"/v1/runs/{run}/events", headers=headers)
    answer = connection.getresponse()
    yield answer
    answer.close()
    connection.close()


def next_of(answer):
    """Return the fields of the next event; nothing at the end."""
    fields = {}
    while line := answer.readline().decode():
        name, _, value = line.rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif fields.get("event"):
            break
    return fields


def all_of(service, run, last=""):
    with following(service, run, last) as answer:
        assert answer.status == 200
        return [*iter(lambda: next_of(answer), {})]


def test_events_come_while_the_run_happens_and_end_with_it(service):
    run = service.submit({"source": WAITS, "live": True})
    with following(service, run) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        first, second = next_of(answer), next_of(answer)
        assert (first["event"], second["event"]) == ("started", "output")
        assert json.loads(second["data"]) == {"stream": 1, "at": 0, "data": "on\n"}
        assert service.run(run)["state"] == "running"
        service.ask("DELETE", f"/v1/runs/{run}")
        rest = [*iter(lambda: next_of(answer), {})]
    assert [each["event"] for each in rest if each["event"] != "usage"] == ["finished"]
    assert json.loads(rest[-1]["data"])["outcome"] == "cancelled"


def test_reader_comes_back_after_the_event_that_it_has(service):
    run = service.submit({"source": "print('a', flush=True); import sys; print('b', file=sys.stderr)", "live": True})
    service.run(run, 30)
    everything = all_of(service, run)
    names = [each["event"] for each in everything if each["event"] != "usage"]
    assert (names[0], sorted(names[1:3]), names[3:]) == ("started", ["output", "output"], ["finished"])
    for at, each in enumerate(everything[:-1]):
        assert all_of(service, run, each["id"]) == everything[at + 1 :]
    for strange in ("other.5", "x", f"{everything[0]['id'].split('.')[0]}.{'9' * 19}x"):
        assert all_of(service, run, strange) == everything
    with following(service, run, everything[-1]["id"]) as answer:
        assert answer.status == 204
    status, _, _ = service.ask("GET", f"/v1/runs/{run}/events", Last_Event_ID="x" * 65)
    assert status == 422


def test_run_that_is_not_live_or_waits_has_its_end(service):
    assert [each["event"] for each in all_of(service, service.submit({"source": "1"}))] == ["finished"]
    blockers = [service.submit({"source": WAITS}) for _ in range(4)]
    waiting = service.submit({"source": "print(1)", "live": True})
    cancelled = service.submit({"source": "print(1)", "live": True})
    with following(service, cancelled) as of_cancelled, following(service, waiting) as of_waiting:
        service.ask("DELETE", f"/v1/runs/{cancelled}")
        assert json.loads(next_of(of_cancelled)["data"])["outcome"] == "cancelled"
        for run in blockers:
            service.ask("DELETE", f"/v1/runs/{run}")
        assert next_of(of_waiting)["event"] == "started"


def test_events_of_another_key_are_not_there(service):
    bob = service.add_key("bob")
    run = service.submit({"source": WAITS, "live": True})
    for key, status in ((bob, 404), ("", 401), (service.key, 200)):
        with following(service, run, key=key) as answer:
            assert answer.status == status
            if status == 404:
                assert json.loads(answer.read())["error"] == "NotFound"
    service.ask("DELETE", f"/v1/runs/{run}")
    assert service.ask("GET", f"/v1/runs/{run}/events", key=bob)[0] == 404


def test_reader_that_is_slow_misses_output_and_delays_nothing(service):
    run = service.submit({"source": FLOOD, "live": True, "limits": {"output": "1GiB"}})
    with following(service, run) as answer:
        assert service.run(run, 60)["outcome"] == "completed"
        pieces = [each for each in iter(lambda: next_of(answer), {}) if each["event"] == "output"]
    pieces = [json.loads(each["data"]) for each in pieces]
    size, last = sum(len(each["data"]) for each in pieces), pieces[-1]
    assert size < 6 << 20
    assert last["at"] + len(last["data"]) == (8 << 20) + len("last\n")


def test_stream_of_a_client_has_the_events_of_the_library(client):
    with client.stream(STEPS, stdin="\n\n", timeout=30) as events:
        found = [event for event in events if not isinstance(event, stockade.UsageReport)]
    assert found[0] == Started()
    outputs = {stream: b"".join(e.data for e in found[1:-1] if e.stream == stream) for stream in (1, 2)}
    assert outputs == {1: b"1\n2\n", 2: "é\né\n".encode()}
    assert found[-1] == Finished(events.result)
    assert (events.result.stdout, events.result.backend) == ("1\n2\n", "native")
    with client.stream_command(["sh", "-c", "printf '\\377'"]) as events:
        assert [event.data for event in events if isinstance(event, Output)] == [b"\xff"]
    with client.stream("while True: pass", cpu_time=0.5) as events:
        limits = [event for event in events if isinstance(event, LimitReached)]
    assert limits[-1].guarantee is Guarantee.CPU_TIME
    with pytest.raises(stockade.JobError, match="no language 'perl'"):
        client.stream("1", language="perl")
    with pytest.raises(TypeError, match="no option 'interpreter'"):
        client.stream("1", interpreter="x")


def test_stream_that_is_left_or_cancelled_ends_its_run(service, client):
    with client.stream(WAITS) as events:
        next(events)
        with pytest.raises(stockade.JobError, match="the run has no result"):
            _ = events.result
        run = events._steps._found["id"]
    wait_for(lambda: service.run(run)["outcome"] == "cancelled")
    with client.stream(WAITS) as events:
        next(events)
        events.cancel()
        assert [*events][-1].result.outcome == "cancelled"

    async def main():
        async with stockade.AsyncClient(f"http://{service.address}", service.key) as there:
            async with there.stream("print(1)") as stream:
                assert [event async for event in stream][-1].result.stdout == "1\n"
            async with there.stream_command(["sleep", "60"]) as stream:
                await anext(stream)
                stream.cancel()
                assert [event async for event in stream][-1].result.outcome == "cancelled"
            async with there.stream("import time\ntime.sleep(0.5)\nprint(2)") as stream:
                found = []
                while not stream._steps._result:
                    with suppress(TimeoutError):  # a wait that ends early loses nothing
                        found.append(await asyncio.wait_for(anext(stream), 0.05))
                assert [event.data for event in found if isinstance(event, Output)] == [b"2\n"]
            async with there.stream(WAITS) as stream:
                await anext(stream)
            wait_for(lambda: service.run(stream._steps._found["id"])["outcome"] == "cancelled")

    asyncio.run(main())


def test_stream_goes_on_after_a_kill_of_either_process(service, client):
    with client.stream("import time\nprint('on', flush=True)\ntime.sleep(1.5)\nprint('off')") as events:
        while not isinstance(next(events), Output):
            pass
        os.kill(service.front, signal.SIGKILL)
        rest = [*events]
        assert [event.data for event in rest if isinstance(event, Output)] == [b"off\n"]
        assert Started() not in rest
    wait_for(lambda: is_ready(service))
    with client.stream("import time\nprint('on', flush=True)\ntime.sleep(1)") as events:
        while not isinstance(next(events), Output):
            pass
        os.kill(service.worker, signal.SIGKILL)
        rest = [*events]
        assert Started() in rest  # it began again
        assert rest[-1].result.stdout == "on\n"
    wait_for(lambda: is_ready(service))
