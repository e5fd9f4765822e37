"""``stockade serve`` as a real process on the loopback, with its real database, workers and kills."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import threading
from pathlib import Path

import pytest
from tests.support.service import Served, processes_with, served, wait_for

import stockade
from stockade import AsyncClient, Client, JobError, PolicyError, ServiceError
from stockade.service.database import Database
from stockade.service.keys import Keys
from stockade.service.parent import Parent
from stockade.service.queue import NewRun, Queue
from stockade.service.settings import Settings

SLEEPER = f"{86_400 + os.getpid()}.75"  # no other process of the machine has this argument
SLEEP = {"argv": ["sleep", SLEEPER]}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("service") / "data")


def test_client_gets_the_result_of_the_library(service):
    client = Client(f"http://{service.address}", service.key)
    source = (
        "import sys\nopen('out.bin', 'wb').write(sys.stdin.buffer.read() + open('in.txt', 'rb').read())\nprint(6 * 7)"
    )
    options = {"stdin": b"\xff\0", "files": {"in.txt": "text"}, "artifacts": ["*.bin"], "memory": "64MiB"}
    there, here = client.run(source, **options), stockade.run(source, **options)
    for name in ("outcome", "exit_code", "stdout_bytes", "stderr_bytes", "value", "artifacts", "limit", "backend"):
        assert getattr(there, name) == getattr(here, name), name
    assert there.limits_met.keys() == here.limits_met.keys()
    for _ in range(2):  # threads that come and go use one connection
        thread = threading.Thread(target=client.run_command, args=(["true"],))
        thread.start()
        thread.join()
    assert len(client._idle) == 1
    assert client.run_command(["sh", "-c", "exit 3"]).exit_code == 3
    assert client.run("while True: pass", cpu_time=0.2).limit == "cpu_time"
    for error, options in (
        (PolicyError, {"memory": "1"}),
        (JobError, {"language": "perl"}),
        (TypeError, {"tiemout": 1}),
    ):
        with pytest.raises(error):
            client.run("1", **options)
    with pytest.raises(ServiceError, match="not known") as refused:
        Client(f"http://{service.address}", f"e2b_{'0' * 40}").run("1")
    assert refused.value.status == 401
    with pytest.raises(ServiceError, match="it answers without TLS; its URL begins with http://"):
        Client(f"https://{service.address}", service.key).run("1")


def test_client_for_asyncio_runs_many_at_a_time_and_cancels(service):
    client = AsyncClient(f"http://{service.address}", service.key)

    async def main():
        async with client:
            found = await asyncio.gather(*(client.run(f"print({n})", memory="64MiB") for n in range(6)))
            assert [each.stdout for each in found] == [f"{n}\n" for n in range(6)]
            assert 0 < len(client._idle) <= 6
            for error, options in (
                (PolicyError, {"memory": "1"}),
                (JobError, {"language": "perl"}),
                (TypeError, {"tiemout": 1}),
            ):
                with pytest.raises(error):
                    await client.run("1", **options)
            sleeping = asyncio.create_task(client.run_command(SLEEP["argv"]))
            await asyncio.to_thread(wait_for, lambda: processes_with(SLEEPER))
            sleeping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sleeping
            await asyncio.to_thread(wait_for, lambda: not processes_with(SLEEPER))
            with pytest.raises(ServiceError, match="it answers without TLS; its URL begins with http://"):
                await AsyncClient(f"https://{service.address}", service.key).run("1")

    for _ in range(2):  # a second loop opens connections of its own
        asyncio.run(main())
    run = service.ask("GET", "/v1/runs?limit=1")[1]["runs"][0]
    assert (run["cancelled"], run["outcome"]) == (True, "cancelled")


def test_a_key_never_reaches_the_runs_of_another(service):
    bob = service.add_key("bob")
    run = service.submit({"source": "print('ann was here')", "labels": {"who": "ann"}})
    assert service.run(run, wait=30)["result"]["stdout"] == "ann was here\n"
    same = {"Idempotency_Key": "one"}
    of_first = service.ask("POST", "/v1/runs", {"source": "1"}, **same)[1]["id"]
    assert service.ask("POST", "/v1/runs", {"source": "1"}, **same)[1]["id"] == of_first
    assert service.ask("POST", "/v1/runs", {"source": "1"}, key=bob, **same)[1]["id"] != of_first
    for method in ("GET", "DELETE"):
        assert service.ask(method, f"/v1/runs/{run}", key=bob)[0] == 404
    for query in ("", "?before=9999", "?state=finished&limit=200"):
        status, page, _ = service.ask("GET", f"/v1/runs{query}", key=bob)
        assert status == 200
        assert run not in str(page)
        assert run in str(service.ask("GET", f"/v1/runs{query}")[1])
    for method, path in (("GET", "/metrics"), ("GET", "/v1/kill"), ("POST", "/v1/kill"), ("DELETE", "/v1/kill")):
        assert service.ask(method, path, {"labels": {"a": "b"}}, key=bob)[0] == 403
    for method, path in (
        ("GET", f"/v1/runs/{run}"),
        ("GET", "/v1/runs"),
        ("POST", "/v1/runs"),
        ("POST", "/v1/kill"),
        ("GET", "/metrics"),
        ("GET", "/nothing"),
    ):
        for key in ("", "x", f"{service.key[:-1]}g", f"e2b_{'0' * 40}"):
            assert service.ask(method, path, {"source": "1"}, key=key)[0] == 401


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b'{"a":', 422, "body = '{\"a\":': not JSON: Expecting value, character 6"),
        (b"[" * 100_000, 400, ""),
        ({"source": 5}, 422, "source.text = 5"),
        ({"sorce": "1"}, 422, "sorce = '1': there is no such field; did you mean 'source'?"),
        ({"source": "1", "timeout": 3}, 422, 'did you mean "limits": {"wall_time": ...}?'),
        ({"argv": "ls -l"}, 422, "expected a list of words, such as"),
        (b'"text"', 422, "expected a JSON object, sent with the header Content-Type: application/json"),
        ({"source": "1", "argv": ["ls"]}, 422, "either source"),
        ({"source": "\ud800"}, 422, "surrogate"),
        ({"argv": ["a\0b"]}, 422, "NUL"),
        ({"argv": []}, 422, "this list is empty"),
        ({"argv": [""]}, 422, "the command is empty"),
        ({"source": "1", "language": "perl"}, 422, "no language 'perl'"),
        ({"source": "1", "files": {"../x": ""}}, 422, "'..'"),
        ({"source": "1", "stdin": {"base64": "?"}}, 422, "base64"),
        ({"source": "1", "limits": {"memroy": 1}}, 422, "did you mean 'memory'"),
        ({"source": "1", "limits": {"memory": [[[[[[[[[]]]]]]]]]}}, 422, "nested"),
        ({"source": "1", "policy": {"filesystem": {"read": ["/etc"]}}}, 422, "the operator sets the rest"),
        ({"source": "1", "policy": {"accept": {"memory": "absent"}}}, 422, "the operator sets the rest"),
        ({"source": "1", "labels": {"key": "bob"}}, 422, "the service's own"),
        (b" " * (8 << 20) + b"{}", 413, "8388608"),
    ],
)  # fmt: skip
def test_bad_request_is_refused_with_the_reason(service, body, status, words):
    found, answer, _ = service.ask("POST", "/v1/runs", body)
    assert (found, words in answer["message"]) == (status, True), answer


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/v1/run", 404, "/v1/run: there is nothing at this path; /openapi.json lists every request"),
        ("PUT", "/v1/runs", 405, "PUT /v1/runs: this path takes GET, POST"),
    ],
)
def test_wrong_path_or_method_is_answered_with_what_there_is(service, method, path, status, words):
    found, answer, _ = service.ask(method, path)
    assert (found, answer["message"]) == (status, words)


def test_no_request_reaches_beyond_the_ceiling(service):
    asked = {
        "source": f"open({__file__!r})",
        "limits": {"memory": "64GiB", "wall_time": "9h"},
        "policy": {"network": "host"},
    }
    _, run, _ = service.ask("POST", "/v1/runs?wait=60", asked)
    result = run["result"]
    assert "of 300 s" in result["limits_met"]["wall_time"]["evidence"]
    assert result["enforcement"]["network"]["strength"] != "absent"
    assert result["outcome"] == "failed"
    own = {"source": __file__}  # a text that names a file of the host is a text
    assert service.ask("POST", "/v1/runs?wait=60", own)[1]["result"]["error"]["type"] == "SyntaxError"


def test_answers_are_as_the_schema_says(service):
    status, schema, _ = service.ask("GET", "/openapi.json", key="")
    assert (status, schema["openapi"][:4]) == (200, "3.1.")
    run = service.ask("POST", "/v1/runs?wait=30", {"source": "1"})[1]
    for found in (run, service.ask("GET", "/v1/runs")[1]["runs"][0]):
        assert found.keys() == schema["components"]["schemas"]["Run"]["properties"].keys()
    for path in ("/healthz", "/readyz"):
        assert service.ask("GET", path, key="")[0] == 200
    assert 'stockade_runs{state="queued"}' in service.ask("GET", "/metrics")[1]
    for path, methods in (("/v1/runs", "GET, POST"), ("/v1/sandboxes/x/files/a/b", "DELETE, GET, PUT")):
        status, _, headers = service.ask("PATCH", path)
        assert (status, headers["Allow"]) == (405, methods)


def test_alerts_and_limits_are_told_to_the_operator(service):
    hog = {"source": "x = bytearray(48 << 20)", "limits": {"memory": "256MiB", "soft_memory": "16MiB"}}
    soft = service.ask("POST", "/v1/runs?wait=60", hog)[1]["result"]["soft_memory"]
    late = {"argv": ["sleep", "9"], "limits": {"wall_time": 0.1}}
    for run in [service.submit(late) for _ in range(10)]:
        assert service.run(run, 60)["result"]["limit"] == "wall_time"
    wait_for(lambda: 'stockade_alerts_total{rule="limits_met"} 1.0' in service.ask("GET", "/metrics")[1])
    assert "alert: limits_met: key=first: a limit ended 10 runs" in service.output()
    figures = service.ask("GET", "/metrics")[1]
    assert 'stockade_limits_reached_total{limit="wall_time",state="met"} ' in figures
    passed = 'stockade_limits_reached_total{limit="memory",state="soft"} 1.0' in figures
    assert passed is (soft["state"] == "met")


def test_kill_switch_ends_what_a_key_runs(service):
    key = service.add_key("eve")
    run = service.submit(SLEEP, key)
    wait_for(lambda: processes_with(SLEEPER))
    label = {"labels": {"run": run}}  # of this test alone: as root, the switch holds for the whole machine
    try:
        assert service.ask("POST", "/v1/kill", label)[1]["on"]
        found = service.ask("GET", f"/v1/runs/{run}?wait=30", key=key)[1]
        assert (found["outcome"], found["result"]["error"]["type"]) == ("cancelled", "KillSwitch")
    finally:
        assert not service.ask("DELETE", "/v1/kill")[1]["on"]


def test_cancelled_run_ends_at_once(service):
    run = service.submit(SLEEP)
    wait_for(lambda: processes_with(SLEEPER))
    assert service.ask("DELETE", f"/v1/runs/{run}")[1]["cancelled"]
    assert service.run(run, wait=30)["outcome"] == "cancelled"
    wait_for(lambda: not processes_with(SLEEPER))


def test_batch_is_refused_whole_seen_by_its_key_alone_and_cancelled_whole(service):
    client, bob = Client(f"http://{service.address}", service.key), service.add_key("mallory")
    found = client.run_batch([{"source": "print(input())", "stdin": "pear"}, {"argv": ["sh", "-c", "exit 3"]}])
    assert [(each.stdout, each.exit_code) for each in found] == [("pear\n", 0), ("", 3)]
    before = service.ask("GET", "/v1/runs?limit=200")[1]["runs"]
    for bad, error, words in (
        ({"source": "1", "language": "perl"}, JobError, r"runs\[1\]: .*perl"),
        ({"source": "1", "memory": "1"}, PolicyError, r"runs\[1\]: limits.memory"),
        ({"source": "1", "argv": ["a"]}, JobError, "either source"),
        ({"source": "1", "tiemout": 1}, TypeError, "tiemout"),
    ):
        with pytest.raises(error, match=words):
            client.run_batch([{"source": "1"}, bad])
    for body in ({"runs": []}, {"runs": [{"source": "1"}] * 1001}, {"runs": [{"source": "1"}, {}]}, {"runs": "x"}):
        assert service.ask("POST", "/v1/batches", body)[0] == 422
    assert service.ask("GET", "/v1/runs?limit=200")[1]["runs"] == before
    status, batch, _ = service.ask("POST", "/v1/batches", {"runs": [SLEEP] * 5})
    place = f"/v1/batches/{batch['id']}"
    assert (status, len(batch["runs"]), batch["next"]) == (202, 5, None)
    for method in ("GET", "DELETE"):
        assert service.ask(method, place, key=bob)[0] == 404
    pages, after = [], 0
    while after is not None:
        page = service.ask("GET", f"{place}?limit=2&after={after}")[1]
        pages, after = [*pages, page["runs"]], page["next"]
    assert [run["id"] for page in pages for run in page] == [run["id"] for run in batch["runs"]]
    assert service.ask("DELETE", place)[0] == 200
    assert {service.run(run["id"], wait=30)["outcome"] for run in batch["runs"]} == {"cancelled"}
    wait_for(lambda: not processes_with(SLEEPER))
    assert service.ask("GET", place)[1]["finished"] == 5


def test_batch_survives_a_kill_of_the_worker_with_one_result_for_each_run(service):
    client = AsyncClient(f"http://{service.address}", service.key)
    waits = {"source": "import time; time.sleep(2); print(input())"}

    async def main():
        async with client:
            batch = asyncio.create_task(client.run_batch([{**waits, "stdin": str(number)} for number in range(5)]))
            await asyncio.to_thread(wait_for, lambda: _running(service))
            os.kill(service.worker, signal.SIGKILL)
            return await batch

    assert [each.stdout for each in asyncio.run(main())] == [f"{number}\n" for number in range(5)]
    runs = service.ask("GET", "/v1/runs?limit=5")[1]["runs"]
    assert len({run["batch"] for run in runs}) == 1
    assert max(run["attempts"] for run in runs) == 2
    assert len(service.ask("GET", f"/v1/batches/{runs[0]['batch']}")[1]["runs"]) == 5


def test_accepted_runs_outlive_every_process(tmp_path):
    """The worker is killed, then the server; at last Ctrl-C leaves nothing. Each run has one result."""
    # It sleeps longer than a busy machine takes to kill the server.
    slow = {"source": "import time; time.sleep(3); print('slow')"}
    server = Served(tmp_path / "data", "--jobs", "1", "--queue-per-key", "2")
    try:
        running = server.submit(slow)
        waiting = (
            [server.submit({"source": f"print({number})"}) for number in range(2)] if _starts(server, running) else []
        )
        status, answer, headers = server.ask("POST", "/v1/runs", slow)
        assert (status, answer["error"], headers["Retry-After"]) == (429, "QueueFull", "5")
        os.kill(server.worker, signal.SIGKILL)
        wait_for(lambda: server.run(running)["attempts"] == 2)
        # The kernel kills the worker with the server, but closes the server's sockets first. A worker that saw that in
        # time would put the run back in good order, and such an attempt does not count.
        os.kill(server.worker, signal.SIGSTOP)
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
        server.start()
        found = [server.run(run, wait=60) for run in (running, *waiting)]
        assert [each["result"]["stdout"] for each in found] == ["slow\n", "0\n", "1\n"]
        assert found[0]["attempts"] == 3

        run = server.submit(SLEEP)
        wait_for(lambda: processes_with(SLEEPER))
        worker = server.worker
        assert server.end(signal.SIGINT) == 130
        assert not processes_with(SLEEPER)
        assert not Path(f"/proc/{worker}").exists()
        database = Database(tmp_path / "data")
        row = Queue(database, Settings(tmp_path)).find(1, run)
        database.close()
        assert (row.state, row.attempts) == ("queued", 0)  # ended in good order, so that attempt does not count
    finally:
        server.close()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert "Traceback" not in server.output()


def test_worker_that_is_stuck_is_replaced(tmp_path):
    async def main():
        with socket.socket() as listener:
            parent = Parent(settings, database, lock.fileno(), listener)
            await parent.worker.start()
            await done(queue.submit(1, NewRun('{"argv": ["true"]}', "{}"))[0])
            stuck = parent.worker.process.pid
            os.kill(stuck, signal.SIGSTOP)
            await done(queue.submit(1, NewRun('{"argv": ["true"]}', "{}"))[0])
            assert not Path(f"/proc/{stuck}").exists()
            await parent.stop()

    async def done(run):
        async with asyncio.timeout(60):
            while queue.find(1, run.id).outcome != "completed":
                await asyncio.sleep(0.1)

    settings = Settings(tmp_path, jobs=1, lease=3)
    database = Database(tmp_path)
    Keys(database).add("ann")
    queue = Queue(database, settings)
    with (tmp_path / "lock").open("w") as lock:
        asyncio.run(main())
    database.close()


def _starts(server, run):
    wait_for(lambda: server.run(run)["state"] == "running")
    return True


def _running(server):
    return server.ask("GET", "/v1/runs?state=running")[1]["runs"]
