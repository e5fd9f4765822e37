"""Control of a run as it happens: signals, pause, cancel."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from itertools import pairwise

import pytest

import stockade
from stockade import Outcome, Output
from stockade.testing.base import SLOWER
from stockade.testing.concurrency import sleepers
from stockade.testing.following import SLEEP, Following

_MARK = f"86396.{os.getpid()}"
_COUNTING = "import os, time\nfor number in range(2000):\n    os.write(1, b'%d\\n' % number); time.sleep(0.01)"
_TRAPS = "import signal, time, os\n{traps}\nos.write(1, b'ready\\n')\nfor _ in range(3000): time.sleep(0.01)"
_FAMILY = (
    "import os, signal, time\n"
    "def on_interrupt(act): signal.signal(signal.SIGINT, act)\n"
    "heard, said = os.pipe()\n"
    "child = os.fork()\n"
    "if child == 0:\n    on_interrupt(lambda *_: (os.write(1, b'child '), os._exit(0))); os.write(said, b'.')\n"
    "else:\n    on_interrupt(lambda *_: (os.write(1, b'parent '), os.waitpid(child, 0), os._exit(3)))\n"
    "    os.read(heard, 1); os.write(1, b'ready\\n')\n"  # both processes are ready
    "for _ in range(3000): time.sleep(0.01)"
)


class SteeringContract(Following):
    """A caller can signal, pause, resume and cancel a run through its stream."""

    def test_cancel_from_another_thread_ends_run(self) -> None:
        begin = time.monotonic()
        _, result = self.steered(SLEEP, lambda run: threading.Timer(0.2, run.cancel).start())
        assert result.outcome is Outcome.CANCELLED
        assert time.monotonic() - begin < 5 * SLOWER

    def test_stream_loop_left_early_ends_run(self) -> None:
        box = stockade.Runner(self.policy(), backend=self.backend)
        mark = self.process_name or _MARK
        for event in box.stream_command(["sh", "-c", f"sleep {_MARK} & echo ready; sleep {_MARK}"]):
            if isinstance(event, Output):
                assert sleepers(mark)
                break
        deadline = time.monotonic() + 10 * SLOWER
        while sleepers(mark):
            assert time.monotonic() < deadline, "the run goes on after its stream was left"
            time.sleep(0.01)
        with self.stream(SLEEP) as run:
            next(run)
        with pytest.raises(stockade.JobError, match="no result"):
            _ = run.result
        assert list(run) == []

    @pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP])
    def test_signal_sent_reaches_guest(self, number: int) -> None:
        if not self.takes_signals:
            self._check_signals_refused(number)
            return
        code = _TRAPS.format(traps=f"signal.signal({int(number)}, lambda *_: (os.write(1, b'caught'), os._exit(7)))")
        printed, result = self.steered(code, lambda run: run.send_signal(number))
        assert (printed, result.exit_code) == ("ready\ncaught", 7)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_signal_not_caught_is_a_crash(self, number: int) -> None:
        if not self.takes_signals:
            self._check_signals_refused(number)
            return
        _, result = self.steered(SLEEP, lambda run: run.send_signal(number))
        assert (result.outcome, result.signal) == (Outcome.CRASHED, number)

    def test_interrupt_reaches_whole_process_group(self) -> None:
        if not self.takes_signals:
            self._check_signals_refused(signal.SIGINT)
            return
        printed, result = self.steered(_FAMILY, lambda run: run.send_signal(signal.SIGINT))
        assert sorted(printed.split()) == ["child", "parent", "ready"]
        assert result.exit_code == 3

    def test_steering_after_the_end_does_nothing(self) -> None:
        run = self.stream("print(1)")
        list(run)
        for act in (run.cancel, run.pause, run.resume, run.close_stdin):
            act()
        run.send_signal(signal.SIGTERM)
        run.write(b"x")
        assert run.result.outcome is Outcome.COMPLETED
        with pytest.raises(stockade.JobError, match="9999"):
            run.send_signal(9999)

    def test_pause_stops_guest_and_its_clock(self) -> None:
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

    def test_pause_stops_children_too(self) -> None:
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
    def test_paused_run_ends_at_once(self, end: str) -> None:
        def act(run: stockade.Stream) -> None:
            run.pause()
            time.sleep(0.3)
            if end == "leave":
                run.close()
            elif end == "kill":
                run.send_signal(signal.SIGKILL)
            else:
                run.cancel()

        if end == "kill" and not self.takes_signals:
            self._check_signals_refused(signal.SIGKILL)
            return
        begin = time.monotonic()
        with self.stream(SLEEP) as run:
            for event in run:
                if isinstance(event, Output):
                    act(run)
        assert time.monotonic() - begin < 5 * SLOWER
        if end != "leave":
            assert run.result.outcome is (Outcome.CRASHED if end == "kill" else Outcome.CANCELLED)

    def test_signal_to_paused_run_waits_for_resume(self) -> None:
        if not self.takes_signals:
            self._check_signals_refused(signal.SIGTERM)
            return
        paused: list[float] = []

        def act(run: stockade.Stream) -> None:
            paused.append(time.monotonic())
            run.pause()
            run.send_signal(signal.SIGTERM)
            threading.Timer(0.8, run.resume).start()

        _, result = self.steered(SLEEP, act)
        assert (result.signal, time.monotonic() - paused[0] > 0.75) == (signal.SIGTERM, True)

    def test_cancelled_task_ends_its_stream(self) -> None:
        async def follow(box: stockade.AsyncRunner, ready: asyncio.Event) -> None:
            async for event in box.stream(SLEEP, **self._options({})):
                if isinstance(event, Output):
                    ready.set()

        async def main() -> None:
            ready = asyncio.Event()
            async with stockade.AsyncRunner(self.policy(), backend=self.backend) as box:
                task = asyncio.create_task(follow(box, ready))
                await ready.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                async with box.stream(SLEEP, **self._options({})) as run:
                    await anext(run)
                async with box.stream(SLEEP, **self._options({})) as run:
                    threading.Timer(0.3, run.cancel).start()
                    assert [event async for event in run][-1].result.outcome is Outcome.CANCELLED  # type: ignore[union-attr]

        begin = time.monotonic()
        asyncio.run(main())
        assert time.monotonic() - begin < 20 * SLOWER

    def test_signal_overtakes_input_that_is_not_read(self) -> None:
        if not self.takes_signals:
            self._check_signals_refused(signal.SIGTERM)
            return
        begin = time.monotonic()
        _, result = self.steered(SLEEP, lambda run: run.send_signal(signal.SIGTERM), stdin=b"x" * (16 << 20))
        assert (result.outcome, result.signal) == (Outcome.CRASHED, signal.SIGTERM)
        assert time.monotonic() - begin < 10 * SLOWER

    def _check_signals_refused(self, number: int) -> None:
        def act(run: stockade.Stream) -> None:
            with pytest.raises(stockade.JobError, match="no signal reaches this guest"):
                run.send_signal(number)
            run.cancel()

        _, result = self.steered(SLEEP, act)
        assert result.outcome is Outcome.CANCELLED
