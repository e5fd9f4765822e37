"""A campaign: many attacks on several backends. Worker processes run the trials, and each trial has a deadline."""

from __future__ import annotations

import json
import os
import queue
import secrets
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from stockade.attacks import outside
from stockade.attacks.corpus import Attack
from stockade.attacks.half import Half
from stockade.attacks.trial import Trial, Verdict
from stockade.core.strict_json import dumps

_TRIAL_SECONDS = 90.0
"""The deadline for one attack on one backend, with its control: three times the time of the slowest attack."""
_END_SECONDS = 10.0


@dataclass(frozen=True)
class Campaign:
    """The attacks and backends to try, and the settings for it."""

    attacks: Sequence[Attack]
    backends: Sequence[str]
    base: Mapping[str, Any] = field(default_factory=dict)
    controls: bool = True
    jobs: int = 1
    name: str = field(default_factory=lambda: secrets.token_hex(4))
    """The mark in the names of the campaign's temporary folders."""

    def trials(self) -> Generator[Trial, None, None]:
        """Yield each trial as it ends.

        Two kinds of trials get a second attempt, alone: those with neither a success nor the expected refusal, and
        those whose control did not succeed. Closing the iterator ends the trials that run, and removes their stages.
        """
        again: list[Trial] = []
        for tried in self._first_attempts():
            if tried.verdict is Verdict.OTHERWISE or tried.lacks_proof:
                again.append(tried)
            else:
                yield tried
        for tried in again:
            attack = next(item for item in self.attacks if item.id == tried.attack)
            alone = replace(self, backends=(tried.backend,))
            for second in alone._run_attacks([attack], 1):
                yield replace(second, attempts=2)

    def _first_attempts(self) -> Iterator[Trial]:
        """Yield the first attempts; attacks that need the machine to themselves come last, one at a time."""
        yield from self._run_attacks([attack for attack in self.attacks if not attack.alone], self.jobs)
        yield from self._run_attacks([attack for attack in self.attacks if attack.alone], 1)

    def _run_attacks(self, attacks: Sequence[Attack], jobs: int) -> Iterator[Trial]:
        waiting: queue.SimpleQueue[Attack] = queue.SimpleQueue()
        for attack in attacks:
            waiting.put(attack)
        done: queue.SimpleQueue[Trial | BaseException | None] = queue.SimpleQueue()
        threads = [_WorkerThread(self, waiting, done) for _ in range(max(1, min(jobs, len(attacks))))]
        for thread in threads:
            thread.start()
        left = len(threads)
        try:
            while left:
                item = done.get()
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    left -= 1
                else:
                    yield item
        finally:
            for thread in threads:
                thread.stop()


class _WorkerThread(threading.Thread):
    """Sends attacks to one worker process, and starts a new one if a trial ends the old one."""

    def __init__(
        self,
        campaign: Campaign,
        waiting: queue.SimpleQueue[Attack],
        done: queue.SimpleQueue[Trial | BaseException | None],
    ) -> None:
        super().__init__(daemon=True)
        self._campaign = campaign
        self._waiting = waiting
        self._done = done
        self._stopping = threading.Event()
        self._worker: subprocess.Popen[str] | None = None
        self._name = ""

    def run(self) -> None:
        """Take attacks from the queue until it is empty."""
        try:
            while not self._stopping.is_set():
                try:
                    attack = self._waiting.get_nowait()
                except queue.Empty:
                    break
                self._try(attack, list(self._campaign.backends))
            self._dismiss()
            self._done.put(None)
        except BaseException as error:
            self._done.put(error)

    def stop(self) -> None:
        """End the worker now. The worker removes its stages first."""
        self._stopping.set()
        worker = self._worker
        if worker is not None and worker.poll() is None:
            worker.terminate()
        self.join(_END_SECONDS)
        if worker is not None and worker.poll() is None:
            worker.kill()

    def _try(self, attack: Attack, backends: list[str]) -> None:
        """Try the attack on each backend. A trial that ends the worker counts as a success; the others continue."""
        while backends and not self._stopping.is_set():
            worker = self._worker or self._begin()
            assert worker.stdin is not None and worker.stdout is not None
            order = {
                "path": str(attack.path),
                "backends": backends,
                "base": dict(self._campaign.base),
                "controls": self._campaign.controls,
            }
            with suppress(OSError):
                worker.stdin.write(dumps(order) + "\n")
                worker.stdin.flush()
            while backends:
                line, late = _line_within(worker, _TRIAL_SECONDS)
                if not line:
                    if not self._stopping.is_set():
                        self._done.put(_lost(attack, backends.pop(0), worker, late=late))
                    self._dismiss()
                    break
                backends.pop(0)
                self._done.put(Trial.from_json(json.loads(line)))

    def _begin(self) -> subprocess.Popen[str]:
        self._name = f"{self._campaign.name}-{secrets.token_hex(4)}"
        self._worker = _start(self._name)
        return self._worker

    def _dismiss(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        assert worker.stdin is not None and worker.stdout is not None
        with suppress(OSError):
            worker.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            worker.wait(_END_SECONDS)
        worker.kill()
        if worker.wait() != 0:
            outside.clear_up(self._name)  # the worker could not do so itself
        worker.stdout.close()


def _start(campaign: str) -> subprocess.Popen[str]:
    paths = list(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "stockade.attacks.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), outside.CAMPAIGN: campaign},
        start_new_session=True,  # the campaign decides what Ctrl-C does
    )


def _line_within(worker: subprocess.Popen[str], seconds: float) -> tuple[str, bool]:
    """Return the worker's next line, and whether the worker was ended because it took too long."""
    assert worker.stdout is not None
    late = threading.Event()

    def end() -> None:
        late.set()
        worker.terminate()

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        return worker.stdout.readline(), late.is_set()
    finally:
        timer.cancel()


def _lost(attack: Attack, backend: str, worker: subprocess.Popen[str], *, late: bool) -> Trial:
    """Return the trial of an attack whose worker gave no answer."""
    what = (
        f"not over after {_TRIAL_SECONDS:g} s" if late else f"the attack ended its supervisor (status {worker.poll()})"
    )
    half = Half(good=False, what=what, succeeded=not late)
    return Trial(attack.id, attack.guarantee, backend, control=None, confined=half)
