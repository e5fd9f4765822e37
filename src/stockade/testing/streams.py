"""Standard input and output of any size and from any source, byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from stockade.testing.base import PATIENT, SLOWER, Expectations, Run


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
