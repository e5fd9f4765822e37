"""Events of a run as it happens: output in order, usage, warnings."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

import stockade
from stockade import Finished, LimitReached, Outcome, Output, Started, UsageReport
from stockade.testing.base import PATIENT, SLOWER
from stockade.testing.following import Following


class StreamingContract(Following):
    """A stream yields events in order and as they happen."""

    def test_events_arrive_in_order_as_they_happen(self) -> None:
        begin = time.monotonic()
        seen = []
        for event in self.stream("import time\nprint('a', flush=True); time.sleep(1); print('b')"):
            seen.append(event)
            if isinstance(event, Output) and event.at == 0:
                assert time.monotonic() - begin < 0.9 * SLOWER
        assert seen[:-1] == [Started(), Output(1, 0, b"a\n"), Output(1, 2, b"b\n")]
        assert isinstance(seen[-1], Finished)
        assert (seen[-1].result.outcome, seen[-1].result.stdout) == (Outcome.COMPLETED, "a\nb\n")

    def test_started_event_arrives_at_once(self) -> None:
        begin = time.monotonic()
        box = stockade.Runner(self.policy(), backend=self.backend)
        with box.stream_command(["sleep", "10"], report_seconds=None) as run:
            assert next(run) == Started()
        assert time.monotonic() - begin < 8

    def test_output_events_past_limit_show_the_tail(self) -> None:
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

    def test_stream_result_equals_run_result(self) -> None:
        code = "import sys; print('out'); print('err', file=sys.stderr); 6 * 7"
        run = self.stream(code)
        list(run)
        other = self.run_source(code)
        for name in ("outcome", "exit_code", "stdout", "stderr", "value", "limits_met"):
            if name != "limits_met":
                assert getattr(run.result, name) == getattr(other, name)
            else:
                assert set(run.result.limits_met) == set(other.limits_met)

    def test_async_stream_yields_same_events(self) -> None:
        code = "import time; print(1, flush=True); time.sleep(0.05); print(2)"

        async def follow() -> list[stockade.Started | Output | UsageReport | LimitReached | Finished]:
            box = stockade.AsyncRunner(self.policy(), backend=self.backend)
            return [event async for event in box.stream(code, report_seconds=None, **self._options({}))]

        assert asyncio.run(follow())[:-1] == list(self.stream(code))[:-1]

    def test_usage_events_arrive_periodically(self) -> None:
        code = "import time\nheld = b'x' * (20 << 20)\nprint('x' * 10, flush=True); time.sleep(1.5)"
        reports = [event for event in self.stream(code, report_seconds=0.2) if isinstance(event, UsageReport)]
        assert 2 <= len(reports) <= 9 + self.start_seconds / 0.2
        assert all(a.wall_seconds < b.wall_seconds for a, b in pairwise(reports))
        assert reports[-1].output == 11
        assert 20 << 20 < max(report.memory or 21 << 20 for report in reports) < 80 << 20, reports
        assert reports[-1].processes in (1, None)

    def test_limit_near_and_met_events(self) -> None:
        run = self.stream("import time; time.sleep(30)", policy={"limits": {"wall_time": 1.0}})
        near, met = (event for event in run if isinstance(event, LimitReached))
        assert (near.guarantee, near.state, near.figure) == ("wall_time", "near", 1.0)
        assert 0.8 <= near.used < 1.0  # however busy the machine is, the warning comes before the end
        assert (met.state, met.used >= 1.0, run.result.limit) == ("met", True, "wall_time")

    def test_near_event_for_each_counted_limit(self) -> None:
        children = 7 if self.counts_tasks else 0
        code = (
            "import os, time\nos.write(1, b'x' * 900)\n"
            f"others = [os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '60') for _ in range({children})]\n"
            "time.sleep(0.2)\n"  # until a forked child executes its program, the parent's memory can count for it too
            "held = b'x' * (110 << 20)\nwhile time.process_time() < 1.75: pass"
        )
        limits = {"memory": (128 << 20) + self.own_memory, "processes": 10, "output": 1000, "cpu_time": 2.0, **PATIENT}
        warned: dict[str, LimitReached] = {}
        result = self.run_source(code, policy={"limits": limits}, on_warning=lambda w: warned.update({w.guarantee: w}))
        assert result.outcome is Outcome.COMPLETED, result
        exact = {"memory": True, "output": True, "cpu_time": self.has_cpu_clock, "processes": self.counts_tasks}
        assert {name for name, is_exact in exact.items() if is_exact} <= set(warned)
        assert self.counts_tasks or "processes" not in warned
        assert all(each.is_warning and each.used >= 0.8 * each.figure for each in warned.values())

    def test_exception_in_on_warning_ends_run(self) -> None:
        def raising(_warning: LimitReached) -> None:
            raise KeyError("enough")

        begin = time.monotonic()
        with pytest.raises(KeyError, match="enough"):
            self.run_source("import time; time.sleep(30)", policy={"limits": {"wall_time": 2}}, on_warning=raising)
        assert time.monotonic() - begin < (1.95 + self.start_seconds) * SLOWER

    @pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
    def test_report_seconds_invalid_is_refused(self, seconds: float) -> None:
        with pytest.raises(stockade.JobError, match="report_seconds"):
            self.stream("1", report_seconds=seconds)
