"""Terminals by the clients of a service: they do what a local terminal does, and another key reaches none."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from tests.support.service import processes_with, served, wait_for

import stockade
from stockade.api.process import WINDOW
from stockade.runs.result import Outcome

SLEEPER = f"{86_400 + os.getpid()}.375"  # no other process of the machine has this argument
HOLD = ["sh", "-c", f"trap '' HUP; echo ready; sleep {SLEEPER}"]
FLOOD = ["sh", "-c", "i=0; while printf %65536s; do i=$((i+1)); echo $i > /tmp/new; mv /tmp/new /tmp/count; done"]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("remote") / "data")


@pytest.fixture(scope="module")
def client(service):
    with stockade.Client(f"http://{service.address}", service.key) as made:
        yield made


@pytest.fixture(scope="module")
def there(client):
    with client.create_sandbox(processes=60) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def here():
    with stockade.Sandbox.create() as sandbox:
        yield sandbox


def until(terminal, words):
    """Return the output up to ``words``."""
    seen = b""
    while words not in seen:
        piece = terminal.read(timeout=60)
        assert piece, seen
        seen += piece
    return seen


@pytest.mark.parametrize("place", ["here", "there"])
def test_terminal_is_the_same_here_and_on_a_service(place, request):
    sandbox = request.getfixturevalue(place)
    with sandbox.terminal(rows=33, columns=101, cwd="/tmp") as terminal:
        with pytest.raises(TypeError):
            terminal.write('{"end": "kill"}')
        terminal.write(b"stty size; pwd; echo $TERM $((6*7))\n")
        assert b"33 101\r\n/tmp\r\nxterm-256color 42" in until(terminal, b"color 42")
        terminal.resize(5, 6)
        # the shell has forked when "up" comes: one that is about to fork misses Ctrl-C
        terminal.write(b"stty size; sh -c 'echo up; exec sleep 1000'\n")
        until(terminal, b"5 6\r\nup\r\n")
        assert (terminal.poll(), terminal.returncode, terminal.argv) == (None, None, ("sh", "-i"))
        with pytest.raises(TimeoutError, match="sh has not ended within"):
            terminal.wait(0.05)
        terminal.write(b"\x03echo a; exit 3\n")
        result = terminal.wait(60)
        assert (result.outcome, result.exit_code, result.backend) == (Outcome.FAILED, 3, "native")
        assert (terminal.poll(), terminal.returncode) == (3, 3)
        while terminal.read(timeout=60):
            pass  # to the end
        with pytest.raises(BrokenPipeError):
            terminal.write(b"x")
        terminal.send_signal(15)  # to nobody
    with sandbox.terminal(["sleep", "1000"]) as terminal:
        terminal.terminate()
        assert (terminal.wait(60).outcome, terminal.returncode) == (Outcome.CRASHED, -15)
    with sandbox.terminal(["sleep", "1000"]) as terminal:
        terminal.kill()
        assert terminal.wait(60).outcome is Outcome.CANCELLED
    with sandbox.terminal(["sleep", "1000"]) as terminal, pytest.raises(TimeoutError, match="has not written that"):
        terminal.read(timeout=0.05)
    assert terminal.wait(0).signal == 1  # the context hung up
    for wrong in ({"rows": 0}, {"columns": 1001}):
        with pytest.raises(stockade.JobError, match="a terminal has 1 to 1000"):
            sandbox.terminal(**wrong)
    for signal in (0, 99):
        with sandbox.terminal() as terminal, pytest.raises(stockade.JobError, match="there is no signal"):
            terminal.send_signal(signal)


def test_terminal_for_asyncio_is_the_same(service):
    async def main():
        async with (
            stockade.AsyncClient(f"http://{service.address}", service.key) as client,
            await client.create_sandbox() as sandbox,
            await sandbox.terminal(["sh", "-c", "read a; stty size; read b; exit 4"], rows=7) as terminal,
        ):
            terminal.resize(8, 9)
            await terminal.write(b"go\n")
            seen = b""
            while b"8 9\r\n" not in seen:
                seen += await terminal.read(timeout=60)
            with pytest.raises(TimeoutError):
                await terminal.wait(0.05)
            await terminal.write(b"on\n")
            assert (await terminal.wait(60)).exit_code == terminal.poll() == 4
            ended = await sandbox.terminal(["sleep", "1000"])
            await ended.close()
            assert (await ended.wait()).signal == 1

    asyncio.run(main())


def test_terminal_of_another_key_is_not_there(service, client, there):
    with stockade.Client(f"http://{service.address}", service.add_key("bob")) as bob:
        stolen = stockade.RemoteSandbox(bob, there._steps)
        stolen._client = bob
        with pytest.raises(stockade.ServiceError, match="this key has no sandbox of this id") as refused:
            stolen.terminal()
        assert refused.value.status == 404
    for wrong, error in (({"cpu_time": 100_000}, stockade.JobError), ({"cwd": "/nowhere"}, None)):
        if error is not None:
            with pytest.raises(error):
                there.terminal(**wrong)
    with client.create_sandbox() as closed:
        pass
    with pytest.raises(stockade.SandboxClosed):
        closed.terminal()


def test_output_that_the_caller_does_not_read_is_bounded(there):
    with there.terminal(FLOOD) as terminal:
        wait_for(lambda: len(terminal._inner._output) >= WINDOW)

        def stands():
            before = there.files.read_text("/tmp/count")
            time.sleep(1)
            return there.files.read_text("/tmp/count") == before

        wait_for(stands)
        assert len(terminal._inner._output) < 2 * WINDOW


def test_input_that_the_command_does_not_read_is_bounded(there):
    with there.terminal(["sleep", "1000"]) as terminal, pytest.raises(TimeoutError, match="has not read its standard"):
        for _ in range(64):
            terminal.write(bytes(WINDOW), timeout=0.2)


def test_no_command_outlives_its_terminal(service, there):
    with there.terminal(HOLD) as terminal:
        until(terminal, b"ready")
        wait_for(lambda: processes_with(SLEEPER))
    assert not processes_with(SLEEPER)
    forgotten = there.terminal(HOLD)
    until(forgotten, b"ready")
    wait_for(lambda: processes_with(SLEEPER))
    del forgotten
    wait_for(lambda: not processes_with(SLEEPER))


def test_terminal_that_ends_without_a_result_names_the_reason(there):
    with there.terminal(["sleep", "1000"], idle_timeout=0.3) as terminal:
        with pytest.raises(stockade.ServiceError, match="no byte came or went for"):
            terminal.wait(60)
        with pytest.raises(stockade.ServiceError):
            terminal.read()
