"""What a run promises, whatever the backend: outcomes, figures, files, environment, input, output."""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

import stockade
from stockade import Guarantee, Outcome, Policy, Sandbox

QUICK = {"wall_time": 20 * int(os.environ.get("STOCKADE_SLOWER", "1"))}  # a bound for what hangs, on this CPU


@pytest.fixture(scope="module", params=["blocking", "asyncio"])
def run(request):
    """Run through both faces; each test sees one."""
    if request.param == "blocking":
        return stockade.run

    def through_asyncio(source, *, policy=None, **options):
        async def once():
            async with stockade.AsyncSandbox(policy) as box:
                return await box.run(source, **options)

        return asyncio.run(once())

    return through_asyncio


class TestOutcomes:
    def test_completed(self, run):
        result = run("print(sum(range(10)))")
        assert (result.outcome, result.exit_code, result.stdout, result.stderr) == (Outcome.COMPLETED, 0, "45\n", "")
        assert result.backend == "native"
        assert set(result.enforcement) == set(Guarantee)

    @pytest.mark.parametrize("code", [1, 2, 124, 125, 126, 127, 130, 137, 255])
    def test_the_guests_own_exit_status_is_passed_on(self, run, code):
        result = run(f"import sys; sys.exit({code})")
        assert (result.outcome, result.exit_code, result.limit) == (Outcome.FAILED, code, None)

    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
    def test_a_signal_is_a_crash(self, run, number):
        result = run(f"import os; os.kill(os.getpid(), {int(number)})")
        assert (result.outcome, result.exit_code, result.signal) == (Outcome.CRASHED, None, number)

    def test_an_exception_is_a_failure_with_the_users_lines_alone(self, run):
        result = run("def f():\n    return 1 / 0\n\nf()\n")
        assert (result.outcome, result.exit_code) == (Outcome.FAILED, 1)
        assert (result.error.type, result.error.message) == ("ZeroDivisionError", "division by zero")
        assert result.error.traceback == result.stderr
        assert "main.py" in result.stderr and "agent" not in result.stderr
        assert result.stderr.count("File ") == 2

    def test_a_syntax_error(self, run):
        result = run("x = = 1")
        assert (result.outcome, result.error.type) == (Outcome.FAILED, "SyntaxError")
        assert "agent" not in result.stderr

    @pytest.mark.parametrize(("argv", "code", "kind"), [
        (["no-such-program"], 127, "CommandNotFound"),
        (["/no/such/program"], 127, "CommandNotFound"),
        (["/etc/passwd"], 126, "NotExecutable"),
        (["/usr"], 126, "NotExecutable"),
    ])  # fmt: skip
    def test_commands_that_cannot_be_executed(self, argv, code, kind):
        result = stockade.run_command(argv)
        assert (result.outcome, result.exit_code, result.error.type) == (Outcome.FAILED, code, kind)


class TestLimits:
    def test_wall_time(self, run):
        begin = time.monotonic()
        result = run("import time; time.sleep(30)", policy=Policy(limits={"wall_time": 0.5}))
        assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.WALL_TIME)
        assert 0.5 <= result.usage.wall_seconds < 0.6
        assert time.monotonic() - begin < 3

    def test_cpu_time(self, run):
        result = run("while True: pass", policy=Policy(limits={"cpu_time": 0.5} | QUICK))
        assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.CPU_TIME)
        assert 0.45 <= result.usage.cpu_seconds < 0.8

    def test_what_was_printed_before_a_kill_is_there(self, run):
        result = run("print('before')\nwhile True: pass", policy=Policy(limits={"wall_time": 0.4}))
        assert (result.stdout, result.limit) == ("before\n", Guarantee.WALL_TIME)

    def test_memory_never_passes_its_limit(self, run):
        result = run("x = bytearray(200 << 20)", policy=Policy(limits={"memory": "64MiB"} | QUICK))
        assert not result.ok
        assert result.outcome is Outcome.LIMIT_EXCEEDED or result.error.type == "MemoryError"

    def test_processes_are_counted_with_threads(self, run):
        code = (
            "import threading, time\nn = 0\ntry:\n"
            "    while n < 50:\n        threading.Thread(target=time.sleep, args=(0.5,), daemon=True).start(); n += 1\n"
            "except RuntimeError: pass\nprint(n)"
        )
        result = run(code, policy=Policy(limits={"processes": 6}))
        assert (result.outcome, result.stdout) == (Outcome.COMPLETED, "5\n")

    def test_open_files(self, run):
        code = "import os\nn = 0\ntry:\n    while True: os.open('/dev/null', 0); n += 1\nexcept OSError as e: print(e.errno)"
        assert run(code, policy=Policy(limits={"open_files": 32})).stdout == "24\n"

    def test_file_size(self, run):
        result = run("open('f', 'wb').write(b'x' * 2_000_000)", policy=Policy(limits={"file_size": "1MiB"}))
        assert (result.outcome, result.error.type) == (Outcome.FAILED, "OSError")  # Python ignores SIGXFSZ
        result = stockade.run_command(
            ["dd", "if=/dev/zero", "of=f", "bs=64k", "count=40"], policy=Policy(limits={"file_size": "1MiB"})
        )
        assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.FILE_SIZE)

    def test_disk_is_one_size_for_all_places_together(self, run):
        code = (
            "import os\ntotal = 0\n"
            "for place in ('/tmp', '/dev/shm', '/workspace'):\n"
            "    try:\n"
            "        with open(place + '/f', 'wb', 0) as f:\n"
            "            for _ in range(100): total += f.write(b'x' * 65536)\n"
            "    except OSError as e: print(e.errno)\n"
            "print(total)"
        )
        result = run(code, policy=Policy(limits={"disk": "10MiB"}))
        assert result.stdout.splitlines() == ["28", "28", str(10 << 20)]

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_output_keeps_head_and_tail_exactly(self, run, stream):
        result = run(
            f"import sys; sys.{stream}.write('a' * 500 + 'b' * 600 + 'c' * 500)", policy=Policy(limits={"output": 1000})
        )
        assert result.outcome is Outcome.COMPLETED
        assert getattr(result, f"{stream}_bytes") == b"a" * 500 + b"c" * 500
        assert getattr(result, f"{stream}_truncated")
        assert "600 bytes omitted" in getattr(result, stream)
        assert result.limits_met[Guarantee.OUTPUT].state == "met"

    def test_output_can_end_the_run(self, run):
        result = run(
            "while True: print('x' * 1000)", policy=Policy(limits={"output": 10_000} | QUICK, on_output="kill")
        )
        assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.OUTPUT)
        assert len(result.stdout_bytes) == 10_000

    def test_a_flood_is_drained_and_counted(self, run):
        result = run("import os\nfor _ in range(1000): os.write(1, b'x' * 65536)", policy=Policy(limits=QUICK))
        assert (result.outcome, result.usage.output, len(result.stdout_bytes)) == (Outcome.COMPLETED, 65536000, 65536)

    def test_lifted_limits_are_off_the_receipt(self, run):
        result = run(
            "pass", policy=Policy(limits={"wall_time": "unlimited", "stack": "unlimited", "disk": "unlimited"})
        )
        assert result.ok
        assert Guarantee.WALL_TIME not in result.limits_met
        assert result.enforcement[Guarantee.WALL_TIME].strength == "absent"


class TestLanguage:
    @pytest.mark.parametrize(("source", "value", "text"), [
        ("1 + 1", 2, "2"),
        ("x = 3\n[x, 'é', None]", [3, "é", None], "[3, 'é', None]"),
        ("{'a': (1, 2)}", {"a": [1, 2]}, "{'a': (1, 2)}"),
        ("object", None, "<class 'object'>"),
        ("float('nan')", None, "nan"),
        ("x = 1", None, None),
        ("print('x')", None, None),
        ("", None, None),
        ("'a doc string'", "a doc string", "'a doc string'"),
        ("from __future__ import annotations\n5", 5, "5"),
        ("import sys; sys.exit(0)", None, None),
    ])  # fmt: skip
    def test_the_value_of_the_last_expression(self, run, source, value, text):
        result = run(source)
        assert (result.outcome, result.value, result.value_repr) == (Outcome.COMPLETED, value, text)

    def test_a_value_too_large_to_report_leaves_its_repr(self, run):
        result = run("'x' * 5_000_000", policy=Policy(limits=QUICK))
        assert result.value is None
        assert result.value_repr.startswith("'xxx") and len(result.value_repr) == 64 << 10

    def test_it_is_main_with_its_own_arguments(self, run):
        code = "import sys, __main__\nprint(__name__, sys.argv[1:], __main__.__file__ == __file__, sys.path[0])"
        assert run(code, arguments=["a", "b c"]).stdout == "__main__ ['a', 'b c'] True /workspace\n"

    def test_threads_and_exit_handlers_end_as_in_an_interpreter(self, run):
        code = (
            "import atexit, threading, time\natexit.register(print, 'exit')\n"
            "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\nprint('main')"
        )
        assert run(code).stdout.split() == ["main", "thread", "exit"]

    def test_multiprocessing_and_subprocess_work(self, run):
        code = (
            "import multiprocessing as m, subprocess, sys\n"
            "if __name__ == '__main__':\n"
            "    with m.get_context('spawn').Pool(2) as p: print(p.map(abs, [-1, -2]))\n"
            "    print(subprocess.run([sys.executable, '-c', 'print(3)'], capture_output=True, text=True).stdout)\n"
        )
        result = run(code, policy=Policy(limits=QUICK | {"processes": 32}))
        assert result.stdout.split() == ["[1,", "2]", "3"], result.stderr

    def test_shell_and_files_by_suffix(self, run, tmp_path):
        (tmp_path / "job.sh").write_text('echo "$1 $0"; exit 3')
        result = run(tmp_path / "job.sh", arguments=["hi"])
        assert (result.exit_code, result.stdout) == (3, "hi /job/job.sh\n")
        (tmp_path / "job.py").write_text("1/0")
        assert 'File "/job/job.py", line 1' in run(tmp_path / "job.py").stderr
        assert run("echo $((1+1))", language="sh").stdout == "2\n"

    def test_a_virtual_environment_can_be_named(self, tmp_path):
        import venv

        venv.create(tmp_path / "env", with_pip=False)
        site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
        (site / "only_here.py").write_text("x = 7")
        tmp_path.chmod(0o755)
        code = "import only_here, sys\nprint(only_here.x, sys.prefix)"
        result = stockade.run(code, interpreter=tmp_path / "env")
        assert result.stdout == f"7 {tmp_path}/env\n", result.stderr
        assert stockade.run(code).error.type == "ModuleNotFoundError"

    @pytest.mark.parametrize("interpreter", ["/no/such/python", "/etc/passwd"])
    def test_an_interpreter_that_is_none_is_named_before_anything_starts(self, interpreter):
        with pytest.raises(stockade.JobError, match=interpreter):
            stockade.run("1", interpreter=interpreter)

    def test_unknown_languages_and_suffixes(self, tmp_path):
        with pytest.raises(stockade.JobError, match="cobol"):
            stockade.run("1", language="cobol")
        with pytest.raises(stockade.JobError, match="suffix"):
            stockade.run(tmp_path / "x.cob")
        with pytest.raises(stockade.JobError, match="No such file"):
            stockade.run(tmp_path / "x.py")


class TestInputAndOutput:
    @pytest.mark.parametrize("size", [0, 1, 65536, 65537, 5_000_000])
    def test_input_of_any_size_comes_through(self, run, size):
        data = os.urandom(size)
        code = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
        import hashlib

        assert run(code, stdin=data, policy=Policy(limits=QUICK)).stdout.strip() == hashlib.sha256(data).hexdigest()

    def test_input_that_nobody_reads_does_no_harm(self, run):
        assert run("print(1)", stdin=b"x" * 10_000_000).stdout == "1\n"

    def test_input_from_a_file_and_from_a_pipe(self, run, tmp_path):
        (tmp_path / "in").write_bytes(b"from a file")
        with (tmp_path / "in").open("rb") as file:
            assert run("print(input())", stdin=file).stdout == "from a file\n"
        read, write = os.pipe()
        os.write(write, b"from a pipe\n")
        with os.fdopen(read, "rb") as file:
            assert run("print(input())", stdin=file).stdout == "from a pipe\n"
        os.close(write)

    def test_no_input_is_an_end_of_file(self, run):
        assert run("import sys; print(repr(sys.stdin.read()))").stdout == "''\n"

    def test_echo_of_more_than_any_buffer_does_not_deadlock(self):
        data = os.urandom(3_000_000)
        result = stockade.run_command(["cat"], stdin=data, policy=Policy(limits={"output": "unlimited"}))
        assert result.stdout_bytes == data

    @pytest.mark.parametrize("data", [b"\0\xff\xfe", "snow ☃\n".encode(), b"", b"\r\n", b"\x1b[31m", bytes(range(256))])
    def test_output_comes_through_byte_for_byte(self, run, data):
        result = run(f"import os; os.write(1, {data!r}); os.write(2, {data!r})")
        assert result.stdout_bytes == result.stderr_bytes == data
        assert result.stdout == data.decode("utf-8", "replace")
        json.dumps(result.as_json())

    def test_a_descendant_that_holds_the_pipe_does_not_delay_the_verdict(self, run):
        code = "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(20)\nprint('done')"
        begin = time.monotonic()
        assert run(code).stdout == "done\n"
        assert time.monotonic() - begin < 5


class TestWhatTheGuestSees:
    def test_files_are_laid_into_the_workspace(self, run):
        files = {"data/a.txt": "hello", "helper.py": b"x = 5"}
        result = run("import helper; print(open('data/a.txt').read(), helper.x)", files=files)
        assert result.stdout == "hello 5\n", result.stderr

    @pytest.mark.parametrize("name", ["/abs", "../up", "a/../b", "", "a//b", "x\0y"])
    def test_names_that_lead_out_of_the_workspace_are_refused(self, name):
        with pytest.raises(stockade.JobError):
            stockade.run("1", files={name: b""})

    def test_named_paths_and_nothing_else(self, run, tmp_path):
        tmp_path.chmod(0o755)
        (tmp_path / "open.txt").write_text("open")
        (tmp_path / "closed.txt").write_text("closed")
        code = f"import os\nprint(os.listdir({str(tmp_path)!r}), open({str(tmp_path / 'open.txt')!r}).read())"
        result = run(code, policy=Policy(filesystem={"read": [tmp_path / "open.txt"]}))
        assert result.stdout == "['open.txt'] open\n", result.stderr

    def test_a_bound_workspace_is_where_the_guest_starts_and_read_only(self, run, tmp_path):
        tmp_path.chmod(0o755)
        (tmp_path / "a").write_text("x")
        code = "import os\nprint(os.getcwd(), os.listdir())\nopen('b', 'w')"
        result = run(code, policy=Policy(filesystem={"workspace": tmp_path}))
        assert result.stdout == f"{tmp_path} ['a']\n"
        assert "Read-only file system" in result.stderr

    def test_a_written_path_reaches_the_host(self, run, tmp_path):
        tmp_path.chmod(0o777)
        policy = Policy(filesystem={"workspace": tmp_path, "write": [tmp_path]}, accept={"disk": "absent"})
        result = run("open('out.txt', 'w').write('made')", policy=policy)
        assert result.ok, result
        assert (tmp_path / "out.txt").read_text() == "made"

    @pytest.mark.parametrize("place", ["read", "write", "workspace"])
    def test_a_path_that_is_not_there_is_named(self, place, tmp_path):
        path = str(tmp_path / "absent")
        policy = Policy(filesystem={place: path if place == "workspace" else [path]}, accept={"disk": "absent"})
        with pytest.raises(stockade.JobError, match="absent"):
            stockade.run("1", policy=policy)

    def test_the_environment_is_what_was_named(self, run, monkeypatch):
        monkeypatch.setenv("SECRET", "s3cret")
        monkeypatch.setenv("WANTED", "w")
        code = "import os, json; print(json.dumps(dict(os.environ)))"
        policy = Policy(environment={"inherit": ["WANTED", "NOT_SET"], "set": {"A": "1"}})
        seen = json.loads(run(code, policy=policy, environment={"B": "2"}).stdout)
        assert {key: seen.get(key) for key in ("WANTED", "A", "B", "SECRET", "NOT_SET")} == {
            "WANTED": "w", "A": "1", "B": "2", "SECRET": None, "NOT_SET": None,
        }  # fmt: skip
        assert set(seen) == {"WANTED", "A", "B", "PATH", "HOME", "TMPDIR", "LANG"}

    def test_identity(self, run):
        code = "import os; print(os.getuid(), os.getgid(), os.getpid() != 1, os.uname().nodename)"
        assert run(code, policy=Policy(security={"uid": 1234})).stdout == "1234 1234 True stockade\n"

    def test_the_root_can_be_writable_within_the_disk_limit(self, run):
        code = (
            "n = 0\ntry:\n"
            "    with open('/big', 'wb', 0) as f:\n        while True: n += f.write(b'x' * 4096)\n"
            "except OSError: print(n)"
        )
        policy = Policy(security={"read_only_root": False}, limits={"disk": "5MiB"})
        written = int(run(code, policy=policy).stdout)
        assert abs(written - (5 << 20)) <= 16 * 4096

    def test_runs_carry_nothing_over(self, run):
        run("open('/tmp/left', 'w'); open('/dev/shm/left', 'w'); open('left', 'w')")
        assert run("import os; print(os.listdir('/tmp'), os.listdir('/dev/shm'), os.listdir())").stdout == "[] [] []\n"


class TestConcurrency:
    def test_many_threads_at_once(self):
        results = {}

        def work(number):
            results[number] = stockade.run(f"print({number})").stdout

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {number: f"{number}\n" for number in range(16)}

    def test_many_tasks_at_once(self):
        async def main():
            async with stockade.AsyncSandbox() as box:
                return await asyncio.gather(*(box.run(f"print({number})") for number in range(16)))

        assert [result.stdout for result in asyncio.run(main())] == [f"{number}\n" for number in range(16)]

    def test_a_cancelled_task_ends_its_run(self):
        async def main():
            async with stockade.AsyncSandbox() as box:
                task = asyncio.create_task(box.run("import time; time.sleep(60)"))
                await asyncio.sleep(0.3)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                return await box.run("print('next')")

        assert asyncio.run(main()).stdout == "next\n"

    def test_a_forked_caller_gets_a_warden_of_its_own(self):
        with Sandbox() as box:
            assert box.run("1").value == 1
            pid = os.fork()
            if pid == 0:
                os._exit(0 if stockade.run("print(2)").stdout == "2\n" else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert box.run("3").value == 3


def test_the_face_is_light():
    code = "import sys, stockade; print([m for m in ('pydantic', 'asyncio', 'click', 'subprocess', 'typing') if m in sys.modules])"
    import subprocess

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(Path(stockade.__file__).parents[1])},
    )  # fmt: skip
    assert found.stdout in ("[]\n", "['typing']\n")
