"""Runs that are followed as they happen, and steered meanwhile: events in order, signals, pause, input."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest

import stockade
from stockade import Finished, LimitReached, Outcome, Output, Started, UsageReport
from stockade.testing.base import PATIENT, SLOWER, Traits
from stockade.testing.concurrency import sleepers

_MARK = "86396.5"
_SLEEP = "import time; print('ready', flush=True); time.sleep(60)"
_COUNTING = "import os, time\nfor number in range(2000):\n    os.write(1, b'%d\\n' % number); time.sleep(0.01)"
_TRAPS = "import signal, time, os\n{traps}\nos.write(1, b'ready\\n')\nfor _ in range(3000): time.sleep(0.01)"
_FAMILY = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGINT, lambda *_: (os.write(1, b'parent '), os.waitpid(child, 0), os._exit(3)))\n"
    "child = os.fork()\n"
    "if child == 0:\n    signal.signal(signal.SIGINT, lambda *_: (os.write(1, b'child '), os._exit(0)))\n"
    "    os.write(1, b'ready\\n')\n"
    "for _ in range(3000): time.sleep(0.01)"
)

Act = Callable[[stockade.Stream], object]


class StreamingContract(Traits):
    """What a stream tells, and what can be done through it."""

    def stream(
        self,
        source: str,
        *,
        policy: Mapping[str, Any] | None = None,
        report_seconds: float | None = None,
        **options: Any,
    ) -> stockade.Stream:
        """Follow source under the policy with these fields."""
        box = stockade.Sandbox(self.policy(**policy or {}), backend=self.backend)
        return box.stream(source, report_seconds=report_seconds, **self._options(options))

    def steered(self, source: str, act: Act, **options: Any) -> tuple[str, stockade.Result]:
        """Follow source, do ``act`` at its first output, and return the standard output and the result."""
        with self.stream(source, **options) as run:
            said = b""
            for event in run:
                if isinstance(event, Output) and event.stream == 1:
                    if not said:
                        act(run)
                    said += event.data
        return said.decode(), run.result

    def test_events_come_in_order_and_as_they_happen(self) -> None:
        begin = time.monotonic()
        seen = []
        for event in self.stream("import time\nprint('a', flush=True); time.sleep(1); print('b')"):
            seen.append(event)
            if isinstance(event, Output) and event.at == 0:
                assert time.monotonic() - begin < 0.9 * SLOWER
        assert seen[:-1] == [Started(), Output(1, 0, b"a\n"), Output(1, 2, b"b\n")]
        assert isinstance(seen[-1], Finished)
        assert (seen[-1].result.outcome, seen[-1].result.stdout) == (Outcome.COMPLETED, "a\nb\n")

    def test_that_it_has_started_is_told_at_once(self) -> None:
        begin = time.monotonic()
        box = stockade.Sandbox(self.policy(), backend=self.backend)
        with box.stream_command(["sleep", "10"], report_seconds=None) as run:
            assert next(run) == Started()
        assert time.monotonic() - begin < 8

    def test_all_output_up_to_the_limit_comes_as_it_is_written_and_the_end_after_it(self) -> None:
        code = "import os, time\nfor n in range(100): os.write(1, b'%09d\\n' % n); time.sleep(0.001)"
        whole = b"".join(b"%09d\n" % number for number in range(100))
        run = self.stream(code, policy={"limits": {"output": 500}})
        pieces = [event for event in run if isinstance(event, Output)]
        came = b"".join(piece.data for piece in pieces if piece.at < 500)
        rest = b"".join(piece.data for piece in pieces if piece.at >= 500)
        assert (came, rest) == (whole[:500], whole[-250:])
        assert all(whole[piece.at :].startswith(piece.data) for piece in pieces)
        assert run.result.stdout_bytes == whole[:250] + whole[-250:]
        assert run.result.stdout_omitted == 500

    def test_a_streams_result_is_that_of_a_run(self) -> None:
        code = "import sys; print('out'); print('err', file=sys.stderr); 6 * 7"
        run = self.stream(code)
        list(run)
        other = self.run_source(code)
        for name in ("outcome", "exit_code", "stdout", "stderr", "value", "limits_met"):
            if name != "limits_met":
                assert getattr(run.result, name) == getattr(other, name)
            else:
                assert set(run.result.limits_met) == set(other.limits_met)

    def test_the_asyncio_face_tells_the_same(self) -> None:
        code = "import time; print(1, flush=True); time.sleep(0.05); print(2)"

        async def follow() -> list[stockade.Started | Output | UsageReport | LimitReached | Finished]:
            box = stockade.AsyncSandbox(self.policy(), backend=self.backend)
            return [event async for event in box.stream(code, report_seconds=None, **self._options({}))]

        assert asyncio.run(follow())[:-1] == list(self.stream(code))[:-1]

    def test_usage_is_told_every_so_often(self) -> None:
        code = "import time\nheld = b'x' * (20 << 20)\nprint('x' * 10, flush=True); time.sleep(1.5)"
        told = [event for event in self.stream(code, report_seconds=0.2) if isinstance(event, UsageReport)]
        assert 2 <= len(told) <= 9
        assert all(a.wall_seconds < b.wall_seconds for a, b in pairwise(told))
        assert told[-1].output == 11
        assert 20 << 20 < max(report.memory or 21 << 20 for report in told) < 80 << 20, told
        assert told[-1].processes in (1, None)

    def test_a_limit_is_told_when_it_is_near_and_when_it_is_met(self) -> None:
        run = self.stream("import time; time.sleep(30)", policy={"limits": {"wall_time": 1.0}})
        near, met = (event for event in run if isinstance(event, LimitReached))
        assert (near.guarantee, near.state, near.figure) == ("wall_time", "near", 1.0)
        assert 0.8 <= near.used < 0.8 + 0.15 * SLOWER
        assert (met.state, met.used >= 1.0, run.result.limit) == ("met", True, "wall_time")

    def test_cpu_memory_processes_and_output_are_told_when_near(self) -> None:
        code = (
            "import os, time\nos.write(1, b'x' * 900)\n"
            "others = [os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '60') for _ in range(7)]\n"
            "time.sleep(0.2)\n"  # what is held when they are forked may be counted for each, until they are programs
            "held = b'x' * (110 << 20)\nwhile time.process_time() < 1.75: pass"
        )
        limits = {"memory": "128MiB", "processes": 10, "output": 1000, "cpu_time": 2.0, **PATIENT}
        warned: dict[str, LimitReached] = {}
        result = self.run_source(code, policy={"limits": limits}, on_warning=lambda w: warned.update({w.guarantee: w}))
        assert result.outcome is Outcome.COMPLETED, result
        assert {"memory", "output", "cpu_time", "processes"} <= set(warned)
        assert all(each.is_warning and each.used >= 0.8 * each.figure for each in warned.values())

    def test_what_a_warning_raises_ends_the_run(self) -> None:
        def raising(_warning: LimitReached) -> None:
            raise KeyError("enough")

        begin = time.monotonic()
        with pytest.raises(KeyError, match="enough"):
            self.run_source("import time; time.sleep(30)", policy={"limits": {"wall_time": 2}}, on_warning=raising)
        assert time.monotonic() - begin < 1.95 * SLOWER

    def test_cancelled_from_another_thread(self) -> None:
        begin = time.monotonic()
        _, result = self.steered(_SLEEP, lambda run: threading.Timer(0.2, run.cancel).start())
        assert result.outcome is Outcome.CANCELLED
        assert time.monotonic() - begin < 5 * SLOWER

    def test_leaving_the_loop_ends_the_run(self) -> None:
        box = stockade.Sandbox(self.policy(), backend=self.backend)
        for event in box.stream_command(["sh", "-c", f"sleep {_MARK} & echo ready; sleep {_MARK}"]):
            if isinstance(event, Output):
                assert sleepers(_MARK)
                break
        deadline = time.monotonic() + 10 * SLOWER
        while sleepers(_MARK):
            assert time.monotonic() < deadline, "it goes on"
            time.sleep(0.01)
        with self.stream(_SLEEP) as run:
            next(run)
        with pytest.raises(stockade.JobError, match="no result"):
            _ = run.result
        assert list(run) == []

    @pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_reaches_the_guest(self, number: int) -> None:
        code = _TRAPS.format(traps=f"signal.signal({int(number)}, lambda *_: (os.write(1, b'caught'), os._exit(7)))")
        said, result = self.steered(code, lambda run: run.send_signal(number))
        assert (said, result.exit_code) == ("ready\ncaught", 7)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_a_signal_that_is_not_caught_is_a_crash(self, number: int) -> None:
        _, result = self.steered(_SLEEP, lambda run: run.send_signal(number))
        assert (result.outcome, result.signal) == (Outcome.CRASHED, number)

    def test_an_interrupt_reaches_the_whole_process_group(self) -> None:
        said, result = self.steered(_FAMILY, lambda run: run.send_signal(signal.SIGINT))
        assert sorted(said.split()) == ["child", "parent", "ready"]
        assert result.exit_code == 3

    def test_a_signal_to_what_has_ended_and_one_that_there_is_not(self) -> None:
        run = self.stream("print(1)")
        list(run)
        for act in (run.cancel, run.pause, run.resume, run.close_stdin):
            act()
        run.send_signal(signal.SIGTERM)
        run.write(b"x")
        assert run.result.outcome is Outcome.COMPLETED
        with pytest.raises(stockade.JobError, match="9999"):
            run.send_signal(9999)

    def test_a_paused_run_stands_still_and_so_does_its_clock(self) -> None:
        moments: list[float] = []

        def follow(run: stockade.Stream) -> None:
            for event in run:
                if isinstance(event, Output):
                    moments.append(time.monotonic())
                    if len(moments) == 20:
                        run.pause()
                        threading.Timer(1.5, run.resume).start()

        with self.stream(_COUNTING.replace("2000", "60"), policy={"limits": {"wall_time": 1.4 * SLOWER}}) as run:
            follow(run)
        assert run.result.outcome is Outcome.COMPLETED, run.result
        assert max(b - a for a, b in pairwise(moments)) > 1.2
        assert run.result.usage.wall_seconds < 1.4 * SLOWER

    def test_children_stand_still_as_well(self) -> None:
        family = "import os, time\nos.fork(); os.fork()\n" + _COUNTING.split("\n", 1)[1]
        counts: list[int] = []

        def stop(run: stockade.Stream) -> None:
            run.pause()
            threading.Timer(0.4, look, [run]).start()

        def look(run: stockade.Stream) -> None:
            counts.append(len(came))
            time.sleep(0.6)
            counts.append(len(came))
            run.cancel()

        came: list[bytes] = []
        with self.stream(family) as run:
            for event in run:
                if isinstance(event, Output):
                    came.append(event.data)
                    if len(came) == 30:
                        stop(run)
        assert counts[0] == counts[1]
        assert run.result.outcome is Outcome.CANCELLED

    @pytest.mark.parametrize("end", ["cancel", "kill", "leave"])
    def test_a_paused_run_is_ended_at_once(self, end: str) -> None:
        def act(run: stockade.Stream) -> None:
            run.pause()
            time.sleep(0.3)
            if end == "leave":
                run.close()
            elif end == "kill":
                run.send_signal(signal.SIGKILL)
            else:
                run.cancel()

        begin = time.monotonic()
        with self.stream(_SLEEP) as run:
            for event in run:
                if isinstance(event, Output):
                    act(run)
        assert time.monotonic() - begin < 5 * SLOWER
        if end != "leave":
            assert run.result.outcome is (Outcome.CRASHED if end == "kill" else Outcome.CANCELLED)

    def test_a_signal_to_a_paused_run_waits_for_it(self) -> None:
        paused: list[float] = []

        def act(run: stockade.Stream) -> None:
            paused.append(time.monotonic())
            run.pause()
            run.send_signal(signal.SIGTERM)
            threading.Timer(0.8, run.resume).start()

        _, result = self.steered(_SLEEP, act)
        assert (result.signal, time.monotonic() - paused[0] > 0.75) == (signal.SIGTERM, True)

    def test_input_is_written_while_it_runs(self) -> None:
        code = "while True:\n    try: print(input().upper(), flush=True)\n    except EOFError: break\nprint('end')"
        with self.stream(code, interactive=True) as run:
            run.write("one\n")
            said = ""
            for event in run:
                if isinstance(event, Output):
                    said += event.data.decode()
                    if said == "ONE\n":
                        run.write(b"two\n")
                    elif said == "ONE\nTWO\n":
                        run.close_stdin()
        assert said == "ONE\nTWO\nend\n"

    def test_input_that_the_guest_does_not_take_is_refused_in_the_end_and_nothing_is_lost(self) -> None:
        piece, code = os.urandom(100_000), "import sys; print('ready', flush=True); sys.stdin.readline()"
        with (
            self.stream(code, interactive=True) as run,
            pytest.raises(BlockingIOError, match="bytes of standard input"),
        ):
            for _ in range(100):
                run.write(piece.replace(b"\n", b" "))
        read = "import sys; print('ready', flush=True); print(len(sys.stdin.buffer.read()))"

        def feed(run: stockade.Stream) -> None:
            left = 40
            while left:
                try:
                    run.write(piece)
                    left -= 1
                except BlockingIOError:
                    time.sleep(0.01)
            run.close_stdin()

        said, _ = self.steered(read, lambda run: threading.Thread(target=feed, args=(run,)).start(), interactive=True)
        assert said == "ready\n4000000\n"

    def test_what_is_asked_for_does_not_wait_behind_input_that_nobody_reads(self) -> None:
        begin = time.monotonic()
        _, result = self.steered(_SLEEP, lambda run: run.send_signal(signal.SIGTERM), stdin=b"x" * (16 << 20))
        assert (result.outcome, result.signal) == (Outcome.CRASHED, signal.SIGTERM)
        assert time.monotonic() - begin < 10 * SLOWER

    def test_input_is_given_or_written_not_both(self) -> None:
        with pytest.raises(stockade.JobError, match="interactive"):
            self.stream("1", stdin=b"x", interactive=True)
        with self.stream(_SLEEP) as run, pytest.raises(stockade.JobError, match="interactive=True"):
            run.write(b"x")
        with self.stream(_SLEEP, interactive=True) as run:
            run.close_stdin()
            with pytest.raises(stockade.JobError, match="closed"):
                run.write(b"x")

    @pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
    def test_reports_that_make_no_sense_are_refused(self, seconds: float) -> None:
        with pytest.raises(stockade.JobError, match="report_seconds"):
            self.stream("1", report_seconds=seconds)

    def test_a_cancelled_task_ends_its_stream(self) -> None:
        async def follow(box: stockade.AsyncSandbox, ready: asyncio.Event) -> None:
            async for event in box.stream(_SLEEP, **self._options({})):
                if isinstance(event, Output):
                    ready.set()

        async def main() -> None:
            ready = asyncio.Event()
            async with stockade.AsyncSandbox(self.policy(), backend=self.backend) as box:
                task = asyncio.create_task(follow(box, ready))
                await ready.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                async with box.stream(_SLEEP, **self._options({})) as run:
                    await anext(run)
                async with box.stream(_SLEEP, **self._options({})) as run:
                    threading.Timer(0.3, run.cancel).start()
                    assert [event async for event in run][-1].result.outcome is Outcome.CANCELLED  # type: ignore[union-attr]

        begin = time.monotonic()
        asyncio.run(main())
        assert time.monotonic() - begin < 20 * SLOWER
