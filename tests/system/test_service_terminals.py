"""Terminals of ``stockade serve``: a client for WebSockets against the real service, and attacks on both."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from tests.support.service import is_ready, processes_with, served, wait_for
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

SLEEPER = f"{86_400 + os.getpid()}.125"  # no other process of the machine has this argument
FLOOD = "i=0; while printf %65536s; do i=$((i+1)); echo $i > /tmp/new; mv /tmp/new /tmp/count; done"
HOLD = f"trap '' HUP; sleep {SLEEPER}"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("terminals") / "data")


@pytest.fixture
def place(service):
    status, found, _ = service.ask("POST", "/v1/sandboxes", {"limits": {"processes": 60}})
    assert status == 201, found
    yield f"/v1/sandboxes/{found['id']}"
    service.ask("DELETE", f"/v1/sandboxes/{found['id']}")


@contextmanager
def terminal(service, place, query="", key=None, **options):
    headers = {"X-API-Key": service.key if key is None else key} | options.pop("headers", {})
    address = f"ws://{service.address}{place}/terminal{query}"
    with connect(address, additional_headers=headers, proxy=None, open_timeout=60, **options) as found:
        yield found


WAITS = b"sh -c 'echo up; exec sleep 1000'\n"
"""The shell has forked when it says so. One that is about to fork misses Ctrl-C, in a sandbox or not."""


def until(opened, words):
    """Return the output up to ``words``."""
    seen = b""
    while words not in seen:
        seen += opened.recv(60)
    return seen


def closing_of(opened):
    """Return how the service closes the connection."""
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            opened.recv(60)
    return closed.value.rcvd.code, closed.value.rcvd.reason


def refusal(service, place, query="", **options):
    with pytest.raises(InvalidStatus) as refused, terminal(service, place, query, **options):
        pass
    answer = refused.value.response
    return json.loads(answer.body) | {"status": answer.status_code}


def test_terminal_types_shows_resizes_interrupts_and_ends(service, place):
    with terminal(service, place, "?rows=33&columns=101&cwd=/tmp") as opened:
        opened.send(b"stty size; pwd; echo $TERM $((6*7))\n")
        assert b"33 101\r\n/tmp\r\nxterm-256color 42" in until(opened, b"color 42")
        opened.send('{"rows": 5, "columns": 6}')
        opened.send(b"stty size; " + WAITS)
        until(opened, b"5 6\r\nup\r\n")
        opened.send(b"\x03echo a; exit 3\n")
        for each in opened:
            last = each
        found = json.loads(last)
        assert (found["outcome"], found["exit_code"]) == ("failed", 3)
        assert (opened.close_code, opened.close_reason) == (1000, "")


def test_terminal_is_for_its_own_key_page_and_sandbox(service, place):
    bob = service.add_key("bob")
    for status, error, options in (
        (401, "KeyError", {"key": ""}),
        (401, "KeyError", {"key": f"e2b_{'0' * 40}"}),
        (404, "NotFound", {"key": bob}),
        (403, "OriginRefused", {"origin": "http://elsewhere.example"}),
        (403, "OriginRefused", {"origin": f"http://{service.address}.elsewhere.example"}),
        (403, "OriginRefused", {"origin": "null"}),
        (422, "RequestError", {"query": "?rows=0"}),
        (422, "RequestError", {"query": "?sell=sh"}),
        (422, "JobError", {"query": "?cpu_time=100000"}),
    ):
        answer = refusal(service, place, **options)
        assert (answer["status"], answer["error"]) == (status, error), options
    unknown = {
        "field": "sell",
        "value": "'sh'",
        "reason": "this request has no such parameter; /openapi.json lists them",
    }
    assert refusal(service, place, "?sell=sh")["problems"] == [unknown]
    with terminal(service, place, origin=f"http://{service.address}") as opened:
        opened.send(b"echo $((6*7))\n")
        until(opened, b"42")
    status, found, headers = service.ask("GET", f"{place}/terminal?argv=sh&argv=-i&rows=3")
    assert (status, found["error"], headers["Upgrade"]) == (426, "UpgradeRequired", "websocket")
    service.ask("DELETE", place)
    assert refusal(service, place)["error"] == "SandboxClosed"


def test_terminals_are_bounded_in_size_and_time(service, place):
    with terminal(service, place, "?argv=cat") as opened:
        opened.send(b"x" * (1 << 16) + b"x")
        assert closing_of(opened)[0] == 1009
    with terminal(service, place, "?idle_timeout=0.5&argv=cat") as opened:
        assert closing_of(opened) == (1008, "no byte came or went for 0.5 seconds")
    with terminal(service, place) as opened:
        opened.send('{"rows": 0}')
        assert closing_of(opened)[0] == 1008


def test_output_that_nobody_reads_waits_in_the_sandbox(service, place):
    """The command counts what it has written, so a buffer that grows without an end shows as a count that rises."""

    def count():
        return service.ask("GET", f"{place}/files//tmp/count")[1]

    def stands():
        before = count()
        time.sleep(1)
        return count() == before

    with terminal(service, place, f"?argv=sh&argv=-c&argv={quote(FLOOD)}", close_timeout=1) as opened:
        opened.recv(60)
        wait_for(stands)
        before = count()
        wait_for(lambda: opened.recv(60) and count() != before)


def test_no_command_outlives_its_terminal(service, place):
    """The command ignores the hang-up. The client leaves, is cut off, or loses the front; or the kill switch ends all."""
    query = f"?argv=sh&argv=-c&argv={quote(HOLD)}"
    with terminal(service, place, query):
        wait_for(lambda: processes_with(SLEEPER))
    wait_for(lambda: not processes_with(SLEEPER))
    with terminal(service, place, query) as opened:
        wait_for(lambda: processes_with(SLEEPER))
        opened.socket.shutdown(socket.SHUT_RDWR)
        wait_for(lambda: not processes_with(SLEEPER))
    with terminal(service, place, query):
        wait_for(lambda: processes_with(SLEEPER))
        os.kill(service.front, signal.SIGKILL)
        wait_for(lambda: not processes_with(SLEEPER))
    wait_for(lambda: is_ready(service))
    with terminal(service, place, query) as opened:
        wait_for(lambda: processes_with(SLEEPER))
        try:
            service.ask("POST", "/v1/kill", {"sandboxes": [place.rpartition("/")[2]]})
            assert json.loads(opened.recv(60))["outcome"] == "cancelled"
        finally:
            assert not service.ask("DELETE", "/v1/kill")[1]["on"]
    assert not processes_with(SLEEPER)
    status, found, _ = service.ask("POST", "/v1/sandboxes", {})
    assert status == 201, found
    with terminal(service, f"/v1/sandboxes/{found['id']}", query) as opened:
        wait_for(lambda: processes_with(SLEEPER))
        os.kill(service.worker, signal.SIGKILL)
        code, reason = closing_of(opened)
        assert (code, "has ended, and the sandbox with it" in reason) == (1008, True)
    wait_for(lambda: not processes_with(SLEEPER))
