"""A connection to the warden serves one run after another. Nothing of one run reaches the next."""

import asyncio
import gzip
import io
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import stockade
from stockade import AsyncRunner, JobError, Outcome, Policy, Runner
from stockade.api.job_arguments import job_from_command
from stockade.api.launcher import open_exchange
from stockade.client import blocking, warden_process

FLOOD = b"x" * (8 << 20)
_MARK = f"31.4159{os.getpid()}"  # unique, because another user can run the same test


@pytest.fixture(autouse=True)
def no_idle_connection():
    warden = warden_process.current()
    while warden._idle:
        warden._idle.pop()[0].close()
    return warden


def test_connection_serves_many_runs(no_idle_connection):
    box = Runner()
    for number in range(3):
        assert box.run(f"print({number})").stdout == f"{number}\n"
        assert len(no_idle_connection._idle) == 1


def test_input_left_unread_reaches_no_other_run(no_idle_connection):
    box = Runner()
    for size in (1 << 16, *range(1 << 20, 5 << 18, 1 << 15), len(FLOOD)):  # the warden holds a mebibyte
        assert box.run_command(["sleep", "0.1"], stdin=FLOOD[:size]).ok
        assert box.run_command(["cat"], stdin=b"mine").stdout == "mine"
    assert len(no_idle_connection._idle) <= 1


def test_connection_after_an_error_is_not_reused(no_idle_connection):
    with no_idle_connection.connect() as connection:
        connection.sock.sendall(b"no message at all")
    assert not no_idle_connection._idle
    assert stockade.run("print(1)").stdout == "1\n"


def test_default_socket_timeout_does_not_apply(no_idle_connection):
    socket.setdefaulttimeout(0.1)
    try:
        for _ in range(2):
            assert Runner().run("import time; time.sleep(0.3); print(1)").stdout == "1\n"
    finally:
        socket.setdefaulttimeout(None)


def test_connection_works_after_a_limit(no_idle_connection):
    box = Runner(Policy(limits={"wall_time": 0.2}))
    for _ in range(3):
        assert box.run("while True: pass").outcome is Outcome.LIMIT_EXCEEDED
        assert box.run_command(["cat"], stdin=b"mine").stdout == "mine"
    assert len(no_idle_connection._idle) == 1


def test_threads_never_share_a_connection():
    box = Runner()

    def echo(number):
        return box.run_command(["cat"], stdin=f"{number}".encode() * 1000).stdout == f"{number}" * 1000

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(echo, range(40)))


def test_cancel_while_sending_harms_no_other_run():
    async def main():
        box = AsyncRunner()
        for delay in (0.0, 0.005, 0.02, 0.05):
            task = asyncio.create_task(box.run_command(["sleep", "5"], stdin=FLOOD))
            await asyncio.sleep(delay)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            mine = f"after {delay}".encode()
            assert (await box.run_command(["cat"], stdin=mine)).stdout_bytes == mine

    asyncio.run(main())


def test_cancel_before_launch_arrives_is_answered():
    box = Runner()
    for source in (b"#" * 100, b"#" * (64 << 20)):
        job = job_from_command(["sleep", "20"], files={"large": source})
        reading, writing = os.pipe()
        os.write(writing, b"!")
        with open_exchange(box.backend, box.plan, job) as (send_queue, connection):

            def cancel(send_queue=send_queue, reading=reading):
                os.read(reading, 1)
                with send_queue.locked() as exchange:
                    exchange.cancel()

            list(blocking.events(send_queue, connection, None, attend={reading: cancel}))
        assert send_queue.exchange.result.outcome is Outcome.CANCELLED
        os.close(reading)
        os.close(writing)


def test_forked_process_keeps_no_run_alive(tmp_path):
    async def main():
        task = asyncio.create_task(AsyncRunner().run_command(["sleep", _MARK]))
        await asyncio.sleep(1)
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        try:
            deadline = time.monotonic() + 3
            while running(_MARK) and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            return running(_MARK)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    assert not asyncio.run(main())


def running(word):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(folder.name)
        except OSError:
            continue
    return found


def test_guest_that_ends_early_harms_no_other_run():
    box = Runner(Policy(limits={"output": "1MiB"}))

    def one(number):
        mine = f"run {number}\n".encode() * 20_000
        if number % 2:
            return box.run_command(["true"], stdin=mine * 5).ok
        return box.run_command(["cat"], stdin=mine).stdout_bytes == mine

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(150)))


def test_stdin_file_is_read_through_its_methods(tmp_path):
    box = Runner()
    (tmp_path / "packed").write_bytes(gzip.compress(b"plain"))
    with gzip.open(tmp_path / "packed", "rb") as file:
        assert box.run_command(["cat"], stdin=file).stdout == "plain"
    (tmp_path / "lines").write_bytes(b"first\nsecond\n")
    with (tmp_path / "lines").open("rb") as file:
        file.readline()
        assert box.run_command(["cat"], stdin=file).stdout == "second\n"


class Broken(io.RawIOBase):
    def readable(self):
        return True

    def readinto(self, buffer):
        raise OSError("the disk is on fire")


def test_stdin_read_error_is_raised_at_once():
    begin = time.monotonic()
    with pytest.raises(OSError, match="on fire"):
        Runner().run_command(["cat"], stdin=Broken())
    with pytest.raises(OSError, match="on fire"):
        asyncio.run(AsyncRunner().run_command(["cat"], stdin=Broken()))
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"stdin": io.StringIO("text")}, "StringIO"),
        ({"stdin": 5}, "int"),
        ({"files": {"a": 5}}, "int"),
        ({"environment": {"A=B": "c"}}, "'A=B'"),
    ],
)
def test_invalid_argument_is_refused_before_start(arguments, reason):
    with pytest.raises(JobError, match=reason):
        stockade.run("1", **arguments)


@pytest.mark.parametrize("closed", ["0", "01", "012"])
def test_caller_without_standard_streams_can_run(closed, tmp_path):
    code = (
        f"import os\nfor fd in {[*map(int, closed)]}: os.close(fd)\n"
        "import stockade\nr = stockade.run('print(1)')\n"
        f"open({str(tmp_path / 'told')!r}, 'w').write(r.stdout)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert (tmp_path / "told").read_text() == "1\n"
