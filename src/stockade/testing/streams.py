"""Standard input and output of any size and from any source, byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

import stockade
from stockade.testing.base import PATIENT, SLOWER, Expectations, Run

_PACKETS = (
    "import fcntl, os\nfcntl.fcntl(1, 1031, 1 << 20)\n"  # F_SETPIPE_SZ: 256 packets, one in each page (pipe(2))
    "fcntl.fcntl(1, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT)\n"
    "for _ in range(250): os.write(1, b'x')\nos.kill(os.getpid(), 9)"
)


class StreamsContract(Expectations):
    """No byte is lost, nothing deadlocks, and no guest can delay its verdict."""

    @pytest.mark.parametrize("size", [0, 1, 65536, 65537, 5_000_000])
    def test_input_of_any_size_arrives_whole(self, run: Run, size: int) -> None:
        data = os.urandom(size)
        code = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
        result = run(code, stdin=data, policy={"limits": PATIENT})
        assert result.stdout.strip() == hashlib.sha256(data).hexdigest()

    def test_input_not_read_does_no_harm(self, run: Run) -> None:
        assert run("print(1)", stdin=b"x" * 10_000_000).stdout == "1\n"

    def test_input_from_file_and_pipe_arrives(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(b"from a file")
        with (tmp_path / "in").open("rb") as file:
            assert run("print(input())", stdin=file).stdout == "from a file\n"
        read, write = os.pipe()
        os.write(write, b"from a pipe\n")
        with os.fdopen(read, "rb") as file:
            assert run("print(input())", stdin=file).stdout == "from a pipe\n"
        os.close(write)

    def test_input_from_a_file_is_a_file_of_the_guests_own(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(b"one\ntwo\n")
        code = (
            "import fcntl, mmap, os, stat, sys\nprint(stat.S_ISREG(os.fstat(0).st_mode), os.fstat(0).st_size)\n"
            "print(input(), sys.stdin.seek(0), sys.stdin.read(3), mmap.mmap(0, 0, access=mmap.ACCESS_READ)[4:7])\n"
            "for act in (lambda: os.pwrite(0, b'x', 0), lambda: os.ftruncate(0, 0), lambda: fcntl.fcntl(0, 1033, 16),\n"
            "            lambda: os.pwrite(os.open('/proc/self/fd/0', os.O_RDWR), b'x', 0)):\n"
            "    try: act(); print('done')\n    except OSError: pass\n"
            "print(os.pread(0, 9, 0))"
        )
        result = run(code, stdin=tmp_path / "in")
        if "memory" in stockade.plan().facts.cgroups:
            assert result.stdout == "True 8\none 0 one b'two'\nb'one\\ntwo\\n'\n", result
        else:  # nothing would count the file's memory, so the input comes through a pipe
            assert result.stdout == "False 0\n", result
        with (tmp_path / "in").open("rb") as file:
            file.readline()
            assert run("print(open(0).read())", stdin=file).stdout == "two\n\n"
        assert (tmp_path / "in").read_bytes() == b"one\ntwo\n"

    def test_input_from_a_large_file_is_a_pipe(self, run: Run, tmp_path: Path) -> None:
        with (tmp_path / "in").open("wb") as file:
            file.truncate(17 << 20)
        code = "import os, stat, sys; print(stat.S_ISFIFO(os.fstat(0).st_mode), len(sys.stdin.buffer.read()))"
        assert run(code, stdin=tmp_path / "in").stdout == "True 17825792\n"

    def test_input_from_no_file_is_refused(self, tmp_path: Path) -> None:
        for name, reason in (("", "not a regular file"), ("missing", "No such file")):
            with pytest.raises(stockade.JobError, match=rf"stdin: .*: {reason}"):
                self.run_source("1", stdin=tmp_path / name)

    def test_input_absent_is_end_of_file(self, run: Run) -> None:
        assert run("import sys; print(repr(sys.stdin.read()))").stdout == "''\n"

    def test_echo_larger_than_buffers_does_not_deadlock(self) -> None:
        data = os.urandom(3_000_000)
        assert self.run_command(["cat"], stdin=data, policy={"limits": {"output": "unlimited"}}).stdout_bytes == data

    @pytest.mark.parametrize("data", [b"\0\xff\xfe", "snow ☃\n".encode(), b"", b"\r\n", b"\x1b[31m", bytes(range(256))])
    def test_output_bytes_arrive_unchanged(self, run: Run, data: bytes) -> None:
        result = run(f"import os; os.write(1, {data!r}); os.write(2, {data!r})")
        assert result.stdout_bytes == result.stderr_bytes == data
        assert result.stdout == data.decode("utf-8", "replace")
        json.dumps(result.as_json(), allow_nan=False)

    def test_dev_stdout_and_stderr_can_be_opened(self) -> None:
        result = self.run_command(["/bin/sh", "-c", "echo out > /dev/stdout; echo err > /dev/stderr"])
        assert (result.stdout, result.stderr) == ("out\n", "err\n")

    def test_pipe_held_open_does_not_delay_verdict(self, run: Run) -> None:
        code = "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(20)\nprint('done')"
        begin = time.monotonic()
        assert run(code).stdout == "done\n"
        assert time.monotonic() - begin < 5 * SLOWER

    def test_output_in_packets_is_complete(self) -> None:
        result = self.run_source(_PACKETS)
        if not self.has_pipes:
            assert result.error is not None and result.error.type == "OSError"
            return
        assert (result.stdout, result.usage.output) == ("x" * 250, 250)
