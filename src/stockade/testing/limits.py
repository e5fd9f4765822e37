"""Limits: each one holds at its figure, and the verdict names the limit that ended a run."""

from __future__ import annotations

import time

import pytest

import stockade
from stockade import Guarantee, LimitReached, Outcome, Strength
from stockade.client import warden_process
from stockade.runs.result import Met
from stockade.testing.base import PATIENT, SLOWER, Expectations, Run

_COUNT_THREADS = (
    "import threading, time\nn = 0\ntry:\n"
    "    while n < 50:\n        threading.Thread(target=time.sleep, args=(0.5,), daemon=True).start(); n += 1\n"
    "except RuntimeError: pass\nprint(n)"
)
_FILL = (
    "import sys\nfor place in sys.argv[1:]:\n    total = 0\n    try:\n"
    "        with open(place + '/f', 'wb', 0) as f:\n"
    "            for _ in range(400): total += f.write(b'x' * 65536)\n"
    "    except OSError as e: print(e.errno, total)\n"
)
_DISK = 16 << 20


class LimitsContract(Expectations):
    """Every limit holds at its figure."""

    def test_soft_memory_passed_warns_once(self) -> None:
        policy = self.policy(limits={"memory": "128MiB", "soft_memory": "48MiB", **PATIENT})
        box = stockade.Runner(policy, backend=self.backend)
        code = "import time\nfor _ in range(3):\n    x = bytearray(72 << 20); time.sleep(0.3); del x\nprint('on')"
        run = box.stream(code, **self._options({}))
        warnings = [event for event in run if isinstance(event, LimitReached)]
        result = run.result
        (soft,) = [each for each in warnings if each.state == "soft"]
        assert (soft.guarantee, soft.figure, soft.used >= soft.figure) == (Guarantee.MEMORY, 48 << 20, True)
        assert (result.stdout, result.limit) == ("on\n", None)
        assert result.soft_memory is not None and result.soft_memory.state is Met.MET

    def test_soft_memory_unpassed_is_not_reported(self, run: Run) -> None:
        result = run("pass", policy={"limits": {"soft_memory": "64MiB"}})
        assert result.ok
        assert result.soft_memory is not None and result.soft_memory.state is not Met.MET
        assert run("pass").soft_memory is None

    def test_address_space_limit_fails_mapping(self, run: Run) -> None:
        code = "import mmap\nx = mmap.mmap(-1, 200 << 20, mmap.MAP_PRIVATE, mmap.PROT_READ)\nprint('mapped')"
        assert run(code).stdout == "mapped\n"  # the pages are never touched, so no limit on memory counts them
        result = run(code, policy={"limits": {"address_space": "128MiB"}})
        assert (result.outcome, result.error and result.error.type) == (Outcome.FAILED, "OSError")
        assert result.enforcement[Guarantee.ADDRESS_SPACE].mechanism.startswith("RLIMIT_AS")
        assert result.limits_met[Guarantee.ADDRESS_SPACE].state is Met.UNKNOWN

    def test_data_limit_fails_private_mapping(self, run: Run) -> None:
        if not self.has_data_limit:
            self.check_refused("data", limits={"data": "64MiB"})
            return
        code = "import mmap\nx = mmap.mmap(-1, 100 << 20, mmap.MAP_PRIVATE)\nprint('mapped')"
        assert run(code).stdout == "mapped\n"
        result = run(code, policy={"limits": {"data": "64MiB"}})
        assert (result.outcome, result.error and result.error.type) == (Outcome.FAILED, "OSError")
        assert result.enforcement[Guarantee.DATA].mechanism == "RLIMIT_DATA"

    def test_data_and_memory_smaller_one_holds(self) -> None:
        policy = {"limits": {"memory": "64MiB", "data": "128MiB"}}
        if not self.has_data_limit:
            self.check_refused("data", **policy)
            return
        warnings = self.run_command(["/bin/sh", "-c", "ulimit -d"], policy=policy)
        counted = stockade.plan(self.policy(**policy), backend=self.backend).enforcement[Guarantee.MEMORY]
        assert int(warnings.stdout) == (128 if counted.strength is Strength.KERNEL else 64) << 10

    def test_io_read_slows_reads_or_plan_refuses(self) -> None:
        policy = {"limits": {"io_read": "2MiB", **PATIENT}}
        if not self.slows_reads or "io" not in warden_process.host_facts().cgroups:
            with pytest.raises(stockade.PlanError, match="io_read"):
                stockade.plan(self.policy(**policy), backend=self.backend)
            return
        # O_DIRECT bypasses the page cache. The interpreter itself is a file on a disk.
        code = (
            "import mmap, os, sys, time\nroom, got, begin = mmap.mmap(-1, 1 << 20), 0, time.monotonic()\n"
            "fd = os.open(os.path.realpath(sys.executable), os.O_RDONLY | os.O_DIRECT)\n"
            "while got < 2 << 20: got += os.preadv(fd, [room], 0)\nprint(time.monotonic() - begin)"
        )
        for fields, least in (({}, 0.0), (policy, 0.8), ({}, 0.0)):
            result = self.run_source(code, policy=fields)
            assert least <= float(result.stdout) < least + 1.2 * SLOWER

    def test_wall_time_exceeded_ends_run(self, run: Run) -> None:
        begin = time.monotonic()
        result = run("import time; time.sleep(30)", policy={"limits": {"wall_time": 0.5}})
        assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.WALL_TIME)
        assert 0.5 <= result.usage.wall_seconds < 1.0 * SLOWER + self.start_seconds
        assert time.monotonic() - begin < 3 * SLOWER

    def test_cpu_time_exceeded_ends_run(self, run: Run) -> None:
        result = run("while True: pass", policy={"limits": {"cpu_time": 0.5, **PATIENT}})
        assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.CPU_TIME)
        assert 0.45 <= result.usage.cpu_seconds < 0.8, result.usage

    def test_cpu_time_of_earlier_runs_is_not_counted(self) -> None:
        box = stockade.Runner(self.policy(limits={"cpu_time": 1.0, **PATIENT}), backend=self.backend)
        least = 0.3 if self.has_cpu_clock else 0.1
        for _ in range(6):
            result = box.run("import time\nwhile time.process_time() < 0.4: pass", **self._options({}))
            assert result.ok and least <= (result.usage.cpu_seconds or 0.0) < 0.8, result

    def test_output_before_a_kill_is_kept(self, run: Run) -> None:
        limits = {"wall_time": 0.4 * SLOWER + self.start_seconds}
        result = run("print('before')\nwhile True: pass", policy={"limits": limits})
        assert (result.stdout, result.limit) == ("before\n", Guarantee.WALL_TIME)

    def test_memory_never_exceeds_its_limit(self, run: Run) -> None:
        result = run("x = bytearray(200 << 20)", policy={"limits": {"memory": "64MiB", **PATIENT}})
        assert not result.ok
        assert result.outcome is Outcome.LIMIT_EXCEEDED or (result.error and result.error.type == "MemoryError")

    def test_processes_limit_counts_threads(self, run: Run) -> None:
        if not self.counts_tasks:
            self.switch_off("this backend's bound on processes counts threads of its engine as well")
        result = run(_COUNT_THREADS, policy={"limits": {"processes": 6}})
        assert result.outcome is Outcome.COMPLETED
        assert abs(int(result.stdout) - 5) <= self.tasks_astray

    def test_open_files_limit_is_exact(self, run: Run) -> None:
        code = (
            "import os\nn = len(os.listdir('/proc/self/fd')) - 1\ntry:\n"
            "    while True: os.open('/dev/null', 0); n += 1\nexcept OSError as e: print(e.errno, n)"
        )
        assert run(code, policy={"limits": {"open_files": 32}}).stdout == "24 32\n"

    def test_file_size_exceeded_fails_write(self, run: Run) -> None:
        limits = {"limits": {"file_size": "1MiB"}}
        result = run("open('f', 'wb').write(b'x' * 2_000_000)", policy=limits)
        assert result.error is not None
        assert (result.outcome, result.error.type) == (Outcome.FAILED, "OSError")  # Python ignores SIGXFSZ
        result = self.run_command(["dd", "if=/dev/zero", "of=f", "bs=64k", "count=40"], policy=limits)
        assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.FILE_SIZE)

    def test_disk_full_at_the_limit(self, run: Run) -> None:
        if self.disk is None:
            assert run("1").enforcement[Guarantee.DISK].strength is Strength.ABSENT
            return
        policy = {"limits": {"disk": _DISK, "file_size": "unlimited"}}
        seen = [line.split() for line in run(_FILL, arguments=self.disk_places, policy=policy).stdout.splitlines()]
        assert [line[0] for line in seen] == ["28"] * len(self.disk_places)
        written = [int(line[1]) for line in seen]
        expected = [_DISK // self.disk.get(place, 0) if place in self.disk else None for place in self.disk_places]
        assert sum(written) <= _DISK
        if None in expected:  # all together
            assert sum(written) >= _DISK - (1 << 16)
        else:
            assert written == expected

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_output_keeps_head_and_tail_exactly(self, run: Run, stream: str) -> None:
        source = f"import sys; sys.{stream}.write('a' * 500 + 'b' * 600 + 'c' * 500)"
        result = run(source, policy={"limits": {"output": 1000}})
        assert result.outcome is Outcome.COMPLETED
        assert getattr(result, f"{stream}_bytes") == b"a" * 500 + b"c" * 500
        assert getattr(result, f"{stream}_truncated")
        assert "600 bytes omitted" in getattr(result, stream)
        assert result.limits_met[Guarantee.OUTPUT].state is Met.MET

    def test_output_exceeded_with_kill_ends_run(self, run: Run) -> None:
        policy = {"limits": {"output": 10_000, **PATIENT}, "on_output": "kill"}
        result = run("while True: print('x' * 1000)", policy=policy)
        assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.OUTPUT)
        assert len(result.stdout_bytes) == 10_000

    def test_output_flood_is_drained_and_counted(self, run: Run) -> None:
        result = run("import os\nfor _ in range(1000): os.write(1, b'x' * 65536)", policy={"limits": PATIENT})
        assert (result.outcome, result.usage.output, len(result.stdout_bytes)) == (Outcome.COMPLETED, 65536000, 65536)

    def test_lifted_limits_are_absent_on_receipt(self, run: Run) -> None:
        lifted = ("wall_time", "stack", "disk", "processes", "memory", "open_files")
        result = run("pass", policy={"limits": dict.fromkeys(lifted, "unlimited")})
        assert result.ok
        for limit in lifted:
            assert Guarantee(limit) not in result.limits_met
            assert result.enforcement[Guarantee(limit)].strength is Strength.ABSENT

    def test_fork_bomb_is_bounded_and_ended(self) -> None:
        code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
        result = self.run_source(code, policy={"limits": {"wall_time": 1, "processes": 20}})
        ends = {Guarantee.WALL_TIME} if self.counts_tasks else {Guarantee.WALL_TIME, Guarantee.PROCESSES}
        assert result.outcome is Outcome.LIMIT_EXCEEDED and result.limit in ends
        assert result.usage.wall_seconds < 10 * SLOWER
