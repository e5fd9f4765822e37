"""Living sandboxes of ``stockade serve``: what they keep, who reaches them, and every way in which they end."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import threading
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from tests.support.service import is_ready, processes_with, served, wait_for

from stockade import (
    AsyncClient,
    CellUsage,
    Client,
    FileRefused,
    JobError,
    PolicyError,
    Sandbox,
    SandboxClosed,
    ServiceError,
    SessionEnded,
)
from stockade.service.database import Database
from stockade.service.living.register import Register

SLEEPER = f"{86_400 + os.getpid()}.25"  # no other process of the machine has this argument
SLEEP = {"argv": ["sleep", SLEEPER]}
BODIES = {
    "/commands": {"argv": ["true"]},
    "/interpreters/{language}/cells": {"source": "1"},
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sandboxes")
    yield from served(folder / "data", "--sandboxes-per-key", "3", "--audit", str(folder / "audit"))


def made(service, key=None, **request):
    status, found, headers = service.ask("POST", "/v1/sandboxes", request, key)
    assert status == 201, found
    assert headers["Location"] == f"/v1/sandboxes/{found['id']}"
    return headers["Location"]


@contextmanager
def begun(service, place):
    """Yield a connection on which the answer of a long command is awaited. At the end nothing of it is left."""
    connection = http.client.HTTPConnection(service.address, timeout=60)
    headers = {"X-API-Key": service.key, "Content-Type": "application/json"}
    connection.request("POST", f"{place}/commands", json.dumps(SLEEP), headers)
    wait_for(lambda: processes_with(SLEEPER))
    with closing(connection):
        yield connection
    wait_for(lambda: not processes_with(SLEEPER))


def test_files_processes_and_variables_last_from_call_to_call(service):
    place = made(service, labels={"who": "ann"}, environment={"COLOUR": "blue"}, max_lifetime=10**6)
    command = {"argv": ["sh", "-c", "cat > /tmp/note; echo $COLOUR$EXTRA; sleep 1000 & exit 3"], "stdin": "kept"}
    status, found, _ = service.ask("POST", f"{place}/commands", {**command, "environment": {"EXTRA": "!"}})
    assert (status, found["exit_code"], found["stdout"]) == (200, 3, "blue!\n")
    assert found["enforcement"]["memory"]["strength"] != "absent"
    assert service.ask("GET", f"{place}/files//tmp/note")[:2] == (200, b"kept")
    content = bytes(range(256)) * 4096
    assert service.ask("PUT", f"{place}/files/a/b.bin", content)[0] == 204
    assert service.ask("GET", f"{place}/files/a%2Fb.bin")[1] == content
    counted = service.ask("POST", f"{place}/commands", {"argv": ["sh", "-c", "wc -c < a/b.bin; pgrep -c sleep"]})[1]
    assert counted["stdout"].split() == [str(len(content)), "1"]
    for path, status, error in (("a", 409, "EISDIR"), ("b", 404, "ENOENT"), ("/proc/1/mem", 403, "EACCES")):
        found = service.ask("GET", f"{place}/files/{path}")
        assert (found[0], found[1]["errno"]) == (status, error), found
    assert service.ask("DELETE", f"{place}/files/a")[1]["errno"] == "ENOTEMPTY"
    assert service.ask("DELETE", f"{place}/files/a?recursive=true")[0] == 204

    cells = f"{place}/interpreters/python/cells"
    assert service.ask("POST", cells, {"source": "x = 6; print('seen'); x * 7"})[1]["value"] == {"text/plain": "42"}
    found = service.ask("POST", cells, {"source": "x / 0"})[1]
    assert (found["outcome"], found["error"]["type"], found["execution_count"]) == ("failed", "ZeroDivisionError", 2)
    found = service.ask("POST", cells, {"source": "import math\ndisplay({'application/json': math.inf}, raw=True)\nx"})[
        1
    ]
    assert found["value_repr"] == "6"
    assert service.ask("POST", cells, {"source": "import os; os._exit(3)"})[1]["outcome"] == "died"
    status, found, _ = service.ask("POST", cells, {"source": "x"})
    assert (status, found["error"]) == (409, "SessionEnded")
    assert service.ask("DELETE", f"{place}/interpreters/python")[0] == 204
    assert service.ask("POST", cells, {"source": "x"})[1]["error"]["type"] == "NameError"

    found = service.ask("GET", place)[1]
    assert (found["state"], found["labels"], found["max_lifetime"]) == ("open", {"who": "ann"}, 3600.0)
    schema = service.ask("GET", "/openapi.json")[1]["components"]["schemas"]["Sandbox"]["properties"]
    assert found.keys() == schema.keys()
    assert service.ask("DELETE", place)[1]["state"] == "closed"
    status, found, _ = service.ask("POST", cells, {"source": "1"})
    assert (status, found["error"], found["message"]) == (410, "SandboxClosed", "its owner closed it")


def test_a_key_never_reaches_the_sandbox_of_another(service):
    """Every operation on a sandbox answers as if it were not there. With its own key, each finds the sandbox."""
    bob = service.add_key("bob")
    place = made(service)
    service.ask("PUT", f"{place}/files/x", b"secret")
    found = []
    for path, methods in service.ask("GET", "/openapi.json")[1]["paths"].items():
        if not path.startswith("/v1/sandboxes/{sandbox}"):
            continue
        rest = path.removeprefix("/v1/sandboxes/{sandbox}")
        concrete = place + rest.replace("{language}", "python").replace("{path}", "x")
        for method in sorted(methods, key="delete".__eq__):  # the sandbox itself is closed last
            if (method, rest) == ("delete", ""):
                continue
            for body in (BODIES.get(rest, b"x"), b"[]"):
                status, answer, _ = service.ask(method.upper(), concrete, body, bob)
                assert (status, answer["error"]) == (404, "NotFound"), (method, path, answer)
            own = service.ask(method.upper(), concrete, BODIES.get(rest, b"x"))
            assert own[0] in (200, 201, 204, 426), (method, path, own)  # a terminal is a WebSocket
            if own[0] == 201:
                service.ask("DELETE", own[2]["Location"])
            found.append(method + rest)
    assert service.ask("DELETE", place, key=bob)[0] == 404
    assert len(found) >= 9
    assert place.rpartition("/")[2] not in str(service.ask("GET", "/v1/sandboxes", key=bob)[1])
    assert place.rpartition("/")[2] in str(service.ask("GET", "/v1/sandboxes?state=open")[1])
    assert service.ask("POST", f"{place}/commands", BODIES["/commands"], key="")[0] == 401
    assert service.ask("DELETE", place)[1]["state"] == "closed"


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        ({"policy": {"filesystem": {"read": ["/etc"]}}}, 422, "the operator sets the rest"),
        ({"limits": {"memroy": 1}}, 422, "did you mean 'memory'"),
        ({"labels": {"key": "bob"}}, 422, "the service's own"),
        ({"workspace": "/etc"}, 422, "there is no such field"),
        ({"max_lifetime": 0}, 422, "greater than 0"),
        ({"environment": {"A=B": "x"}}, 422, "A=B"),
    ],
)
def test_bad_sandbox_is_refused_with_the_reason(service, request_, status, words):
    found, answer, _ = service.ask("POST", "/v1/sandboxes", request_)
    assert (found, words in answer["message"]) == (status, True), answer


def test_open_sandboxes_of_a_key_are_bounded(service):
    eve = service.add_key("eve")
    places = [made(service, eve) for _ in range(3)]
    status, found, headers = service.ask("POST", "/v1/sandboxes", {}, eve)
    assert (status, found["error"], headers["Retry-After"]) == (429, "TooManySandboxes", "5")
    service.ask("DELETE", made(service))  # another key has its own
    service.ask("DELETE", places.pop(), key=eve)
    places.append(made(service, eve))
    assert service.ask("GET", "/v1/sandboxes?state=open&limit=2", key=eve)[1]["next"]
    assert "stockade_sandboxes 3.0" in service.ask("GET", "/metrics")[1]

    left = {"argv": ["sh", "-c", f"sleep {SLEEPER} > /dev/null 2>&1 &"]}
    assert service.ask("POST", f"{places[0]}/commands", left, eve)[0] == 200
    wait_for(lambda: processes_with(SLEEPER))
    service.remove_key("eve")
    wait_for(lambda: not processes_with(SLEEPER))


def test_kill_switch_ends_sandboxes_and_refuses_new_ones(service):
    place, other = made(service, labels={"who": "mallory"}), made(service)
    labels = {"labels": {"who": "mallory"}, "sandboxes": [other.rpartition("/")[2]]}
    try:
        with begun(service, place) as connection:
            assert service.ask("POST", "/v1/kill", labels)[1]["on"]
            assert b"kill switch" in connection.getresponse().read()
        status, found, _ = service.ask("POST", "/v1/sandboxes", {"labels": {"who": "mallory"}})
        assert (status, "kill switch" in found["message"]) == (503, True)
        for each in (place, other):
            status, found, _ = service.ask("POST", f"{each}/commands", {"argv": ["true"]})
            assert (status, "kill switch" in found["message"]) == (410, True), found
        service.ask("DELETE", made(service))
    finally:
        assert not service.ask("DELETE", "/v1/kill")[1]["on"]


def test_audit_log_names_key_and_sandbox(service):
    place = made(service)
    service.ask("POST", f"{place}/commands", {"argv": ["true"]})
    service.ask("DELETE", place)
    lines = [json.loads(line) for line in service.folder.with_name("audit").read_text().splitlines()]
    name = place.rpartition("/")[2]
    own = [line for line in lines if line.get("sandbox") == name]
    assert [(line["event"], line["kind"], line["labels"]) for line in own] == [
        ("start", "sandbox", {"key": "first"}),
        ("start", "command", {"key": "first"}),
    ]
    assert {line["run"] for line in own} <= {line["run"] for line in lines if line["event"] == "finish"}


def test_client_gives_what_a_local_sandbox_gives(service):
    """Each line of the program runs in both; only times and the receipt's figures may differ."""
    client = Client(f"http://{service.address}", service.key)
    with (
        client.create_sandbox(memory="256MiB", environment={"A": "b"}) as there,
        Sandbox.create(memory="256MiB", environment={"A": "b"}) as here,
    ):
        for argv, options in (
            (["sh", "-c", "cat; echo $A$B; exit 3"], {"stdin": b"\xff\0", "environment": {"B": "c"}}),
            (["sleep", "60"], {"timeout": 0.2}),
            (["pwd"], {"cwd": "/tmp"}),
        ):  # fmt: skip
            one, other = there.run_command(argv, **options), here.run_command(argv, **options)
            for name in ("outcome", "exit_code", "signal", "limit", "stdout_bytes", "stderr_bytes", "error", "backend"):
                assert getattr(one, name) == getattr(other, name), (argv, name)
            assert one.enforcement.keys() == other.enforcement.keys()
        one, other = there.interpreter("python"), here.interpreter("python")
        for source in (
            "x = 6; import sys; print('out'); print('err', file=sys.stderr); x * 7",
            "display({'image/png': 'iVBORw0KGgo=', 'application/json': {'a': [1]}}, raw=True)",
            "1 / 0",
            "import os; os._exit(3)",
        ):
            found, expected = (replace(each.run(source), usage=CellUsage()) for each in (one, other))
            assert found == expected, source
        for each in (one, other):
            with pytest.raises(SessionEnded, match="exited with status 3"):
                each.run("x")
            each.restart()
            assert each.run("x").error.type == "NameError"
        for each in (there, here):
            each.files.write("a/b ä.bin", b"\0\xff")
            assert each.files.read_bytes("a/b ä.bin") == b"\0\xff"
            each.files.write("/tmp/c", "text")
            assert each.files.read_text("/tmp/c") == "text"
            each.files.remove("a", recursive=True)
            with pytest.raises(FileNotFoundError) as missing:
                each.files.read_bytes("a/b ä.bin")
            assert missing.value.filename == "a/b ä.bin"
            with pytest.raises(IsADirectoryError):
                each.files.read_bytes("/tmp")
            with pytest.raises(FileRefused):
                each.files.read_bytes("/dev/null")
            with pytest.raises(JobError):
                each.run_command(["true"], timeout=10**6)
        for error, options in (
            (PolicyError, {"memory": "1"}),
            (TypeError, {"memroy": 1}),
            (JobError, {"labels": {"key": "x"}}),
        ):
            with pytest.raises(error):
                client.create_sandbox(**options)
    for each in (there, here):
        with pytest.raises(SandboxClosed, match="the sandbox was closed"):
            each.run_command(["true"])


def test_async_client_has_many_calls_and_cancels_them(service):
    async def main():
        async with (
            AsyncClient(f"http://{service.address}", service.key) as client,
            await client.create_sandbox(memory="256MiB", environment={"A": "b"}) as sandbox,
        ):
            await sandbox.files.write("a/b ä.bin", b"\0\xff")
            assert await sandbox.files.read_bytes("a/b ä.bin") == b"\0\xff"
            meet = "touch $1; until [ -e $2 ]; do sleep 0.05; done; echo $A"  # each waits for the other
            found = await asyncio.gather(
                *(sandbox.run_command(["sh", "-c", meet, "sh", *names]) for names in (("1", "2"), ("2", "1")))
            )
            assert [each.stdout for each in found] == ["b\n", "b\n"]
            python = await sandbox.interpreter("python")
            assert (await python.run("x = 6; x * 7")).value_repr == "42"
            await python.restart()
            assert (await python.run("x")).error.type == "NameError"

            sleeping = asyncio.create_task(sandbox.run_command(SLEEP["argv"]))
            await asyncio.to_thread(wait_for, lambda: processes_with(SLEEPER))
            sleeping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sleeping
            await asyncio.to_thread(wait_for, lambda: not processes_with(SLEEPER))
            await sandbox.files.remove("a", recursive=True)
            with pytest.raises(FileNotFoundError):
                await sandbox.files.read_text("a/b ä.bin")
            with pytest.raises(TypeError, match="did you mean 'timeout'"):
                await sandbox.run_command(["true"], tiemout=1)
            for error, options in ((PolicyError, {"memory": "1"}), (TypeError, {"memroy": 1})):
                with pytest.raises(error):
                    await client.create_sandbox(**options)
        with pytest.raises(SandboxClosed, match="the sandbox was closed"):
            await sandbox.run_command(["true"])
        return sandbox

    sandbox = asyncio.run(main())
    assert repr(sandbox) == f"<AsyncRemoteSandbox {sandbox.id}: closed>"
    assert service.ask("GET", f"/v1/sandboxes/{sandbox.id}")[1]["reason"] == "its owner closed it"


def test_fork_has_the_files_and_counts_for_its_key(service):
    """The key may have three sandboxes: of four forks that begin at once, two are refused."""
    fay = service.add_key("fay")

    async def main():
        async with AsyncClient(f"http://{service.address}", fay) as client:
            options = {"labels": {"who": "fay"}, "max_lifetime": 500, "environment": {"A": "b"}}
            async with await client.create_sandbox(**options) as sandbox:
                await sandbox.files.write("note", "kept")
                await sandbox.run_command(["sh", "-c", f"sleep {SLEEPER} > /dev/null 2>&1 &"])
                found = await asyncio.gather(*(sandbox.fork() for _ in range(4)), return_exceptions=True)
                assert [each.status for each in found if isinstance(each, ServiceError)] == [429, 429], found
                await sandbox.files.write("note", "changed")
            forks = [each for each in found if not isinstance(each, ServiceError)]
            for fork in forks:
                assert await fork.files.read_text("note") == "kept"
                assert (await fork.run_command(["sh", "-c", "echo $A; pgrep -c sleep"])).stdout == "b\n0\n"
                of, row = (service.ask("GET", f"/v1/sandboxes/{each.id}", key=fay)[1] for each in (sandbox, fork))
                for name in ("labels", "idle_timeout", "max_lifetime"):
                    assert row[name] == of[name]
                await fork.close()
            with pytest.raises(SandboxClosed):
                await fork.fork()

    asyncio.run(main())
    client = Client(f"http://{service.address}", fay)
    with client.create_sandbox() as sandbox, sandbox.fork() as fork:
        assert fork.id != sandbox.id
    assert service.ask("POST", f"/v1/sandboxes/{sandbox.id}/fork", key=fay)[1]["error"] == "SandboxClosed"


def test_client_does_not_repeat_a_command_whose_answer_is_lost(service):
    client = Client(f"http://{service.address}", service.key)
    with client.create_sandbox() as sandbox:
        found = []

        def run():
            with pytest.raises(ServiceError, match="the service may have done it") as lost:
                sandbox.run_command(["sh", "-c", f"echo >> /tmp/count; sleep {SLEEPER}"])
            found.append(lost.value)

        thread = threading.Thread(target=run)
        thread.start()
        wait_for(lambda: processes_with(SLEEPER))
        os.kill(service.front, signal.SIGKILL)
        thread.join(60)
        assert found
        assert (
            sandbox.files.read_bytes("/tmp/count") == b"\n"
        )  # a request that may be repeated waits for the next front


def test_nothing_is_left_after_any_process_was_killed(service):
    """A command ends with its client and with the front; the sandbox goes on. It ends with the worker."""
    place, idle = made(service), made(service, idle_timeout=0.5)
    with begun(service, place):
        pass
    with begun(service, place):
        os.kill(service.front, signal.SIGKILL)
        wait_for(lambda: not processes_with(SLEEPER))
    wait_for(lambda: is_ready(service))
    assert service.ask("POST", f"{place}/commands", {"argv": ["true"]})[1]["exit_code"] == 0
    status, found, _ = service.ask("POST", f"{idle}/commands", {"argv": ["true"]})
    assert (status, "idle_timeout" in found["message"]) == (410, True), found

    with begun(service, place) as connection:
        os.kill(service.worker, signal.SIGKILL)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]) == (410, "SandboxClosed")
    wait_for(lambda: is_ready(service))
    status, found, _ = service.ask("GET", f"{place}/files/x")
    assert (status, "has ended, and the sandbox with it" in found["message"]) == (410, True)
    assert service.ask("GET", place)[1]["state"] == "lost"

    place = made(service)
    with begun(service, place):
        assert service.end(signal.SIGKILL) == -signal.SIGKILL
        wait_for(lambda: not processes_with(SLEEPER))
    service.start()
    assert service.ask("POST", f"{place}/commands", {"argv": ["true"]})[0] == 410

    place = made(service)
    with begun(service, place):
        assert service.end(signal.SIGTERM) == 0
        assert not processes_with(SLEEPER)
    with closing(Database(service.folder)) as database:
        found = Register(database).find(1, place.rpartition("/")[2])
    assert (found.state, found.reason) == ("closed", "the service was stopped; create another one")
