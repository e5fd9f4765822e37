"""The worker of a service: a process that leases runs from the queue, runs them, and writes their results.

The parent starts it, as ``python -m stockade.service.worker``, and starts another one if it ends. It dies with the
parent, and its sandboxes die with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections import OrderedDict
from contextlib import suppress

from sqlalchemy.exc import DBAPIError

from stockade.api.asynchronous.runner import AsyncRunner
from stockade.core.errors import StockadeError
from stockade.core.strict_json import dumps
from stockade.linux.processes import die_with
from stockade.observe.configure import configure
from stockade.observe.monitor import Alert, Monitor
from stockade.runs.errors import ResultFormatError
from stockade.runs.events import LimitReached
from stockade.runs.hooks import Hooks, RunInfo
from stockade.runs.job import Job
from stockade.runs.result import GuestError, Outcome, Result
from stockade.service.database import Database
from stockade.service.journals import Journals
from stockade.service.link import ALERTED, ALIVE, CANCEL, FINISHED, LEFT, REACHED, READY, REFUSED, Link
from stockade.service.living.channel import Channel
from stockade.service.living.owner import Owner
from stockade.service.living.register import Register
from stockade.service.processes import Order, at_sigterm
from stockade.service.queue import CANCELLED, Leased, Queue
from stockade.service.requests import Policies, RunRequest, job_of
from stockade.service.settings import Settings

_LOOK_SECONDS = 1.0
"""How often the worker looks into the queue, besides when it is woken."""
_RETRY_SECONDS = 1.0
_MOST_RUNNERS = 64


class Worker:
    """The runs of one worker process."""

    def __init__(
        self, settings: Settings, queue: Queue, link: Link, holder: str, sandboxes: Owner, *, journals: Journals
    ) -> None:
        self._journals = journals
        self._settings, self._queue, self._link, self._holder = settings, queue, link, holder
        self._policies, self._sandboxes = Policies(settings), sandboxes
        self._runners: OrderedDict[str, AsyncRunner] = OrderedDict()
        self._running: dict[str, tuple[Leased, asyncio.Task[None]]] = {}
        """What runs, by its lease: a run that was lost and leased again is another one."""
        self._decided: set[str] = set()
        """Leases whose result is decided, by an end or a cancellation: a later cancellation has no effect."""
        self._wake = asyncio.Event()
        self._stopping = False

    async def work(self) -> None:
        """Run what the queue has, until ``stop``. Then end what runs, and put it back into the queue."""
        try:
            self._observe()
            await self._runner(RunRequest(source="")).__aenter__()
        except StockadeError as error:
            self._link.send(REFUSED, dumps(error.as_json(), compact=True))
            return
        self._sandboxes.begin()
        self._link.send(READY, self._holder)
        helpers = [asyncio.create_task(each) for each in (self._listen(), self._renew(), self._sandboxes.serve())]
        try:
            while not self._stopping:
                await self._take()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):  # wait_for would make a task each time
                        await self._wake.wait()
                self._wake.clear()
        finally:
            tasks = (*helpers, *(task for _, task in self._running.values()))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._queue.release(self._holder, counted=False)
            await self._sandboxes.close()

    def _observe(self) -> None:
        """Look at all runs, those in living sandboxes included."""
        loop = asyncio.get_running_loop()

        def reached(_info: RunInfo, event: LimitReached) -> None:
            self._link.send(REACHED, event.guarantee.value, event.state)

        def alerted(alert: Alert) -> None:
            _say(f"alert: {alert}")
            loop.call_soon_threadsafe(self._link.send, ALERTED, alert.rule)

        hooks = Hooks(on_warning=reached, on_limit=reached)
        configure(audit=self._settings.audit, hooks=hooks, monitor=Monitor(label="key", on_alert=alerted))

    def stop(self) -> None:
        """Take no more runs, and end."""
        self._stopping = True
        self._wake.set()

    async def _take(self) -> None:
        free = self._settings.jobs - len(self._running)
        if free <= 0:
            return
        try:
            found = self._queue.lease(self._holder, free)
        except DBAPIError as error:
            _say(f"the queue cannot be read: {error.orig}")
            return
        for leased in found:
            task = asyncio.create_task(self._run(leased))
            self._running[leased.lease] = leased, task

    async def _run(self, leased: Leased) -> None:
        try:
            result = await self._result(leased)
            self._decided.add(leased.lease)
            await self._finish(leased, result)
        finally:
            self._running.pop(leased.lease, None)
            self._decided.discard(leased.lease)
            self._wake.set()

    async def _result(self, leased: Leased) -> Result:
        try:
            request = RunRequest.model_validate_json(leased.request)
            job = job_of(request, {"key": leased.key, "run": leased.id})
            runner = self._runner(request)
            return await (self._followed(leased, runner, job) if request.live else runner.run_job(job))
        except asyncio.CancelledError:
            if leased.lease not in self._decided:
                raise  # the lease is gone, or the worker stops
            return CANCELLED
        except (StockadeError, OSError) as error:
            return Result(Outcome.SANDBOX_FAILED, error=GuestError(type(error).__name__, str(error)))

    async def _followed(self, leased: Leased, runner: AsyncRunner, job: Job) -> Result:
        """Run a job, and keep its events for the clients that follow it."""
        journal = self._journals.begin(leased.id, leased.key_id)
        try:
            async with runner.stream_job(job) as events:
                async for event in events:
                    journal.add(event)
            return events.result
        finally:
            journal.end()

    async def _finish(self, leased: Leased, result: Result) -> None:
        """Write the result, and try again while the database cannot be written and the lease holds."""
        while True:
            try:
                wrote = self._queue.finish(leased, result)
            except DBAPIError as error:
                _say(f"the result of {leased.id} cannot be written, and is tried again: {error.orig}")
                await asyncio.sleep(_RETRY_SECONDS)
            except ResultFormatError as error:
                result = Result(Outcome.SANDBOX_FAILED, error=GuestError("ResultFormatError", str(error)))
            else:
                if wrote:
                    self._link.send(FINISHED, leased.id, result.outcome.value)
                return

    def _runner(self, request: RunRequest) -> AsyncRunner:
        """Return the runner for a request's policy, which a later request with the same one uses as well."""
        name = Policies.name(request)
        runner = self._runners.get(name)
        if runner is None:
            policy = self._policies.of(request)
            runner = AsyncRunner(policy, backend=self._settings.backend, trust=self._settings.trust)
            self._runners[name] = runner
            if len(self._runners) > _MOST_RUNNERS:
                self._runners.popitem(last=False)
        self._runners.move_to_end(name)
        return runner

    async def _listen(self) -> None:
        async for word, rest in self._link.lines():
            if word == CANCEL:
                for lease in [lease for lease, (leased, _) in self._running.items() if leased.id == rest]:
                    self._cancel(lease)
            elif word == LEFT:
                self._sandboxes.leave()
            self._wake.set()
        self.stop()  # the parent is gone

    def _cancel(self, lease: str) -> None:
        if lease in self._running and lease not in self._decided:
            self._decided.add(lease)
            self._running[lease][1].cancel()

    async def _renew(self) -> None:
        """Prolong the leases of what runs. End runs whose lease is gone, and those that were cancelled."""
        while True:
            self._link.send(ALIVE)
            await asyncio.sleep(self._settings.lease / 3)
            mine = [*self._running]
            try:
                held, cancelled = self._queue.renew(mine)
            except DBAPIError as error:
                _say(f"the leases cannot be renewed: {error.orig}")
                continue
            for lease in mine:
                if lease in cancelled:
                    self._cancel(lease)
                elif lease not in held and lease in self._running:
                    self._running[lease][1].cancel()


async def _main(order: Order, end: socket.socket, calls: socket.socket) -> None:
    link = await Link.over(end)
    database = Database(order.settings.data)
    settings, policies = order.settings, Policies(order.settings)
    journals = Journals()
    sandboxes = Owner(settings, policies, Register(database), Channel(calls), order.holder, others=journals.operations)
    worker = Worker(settings, Queue(database, settings), link, order.holder, sandboxes, journals=journals)
    at_sigterm(worker.stop)
    await worker.work()
    link.close()
    database.close()


def _say(message: str) -> None:
    print(f"stockade: worker: {message}", file=sys.stderr, flush=True)


def main() -> None:
    """Start the worker that the argument describes."""
    order = Order.load(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getppid() != order.parent:
        return  # the parent ended before this process began
    die_with(os.pidfd_open(order.parent))
    for fd in (order.link, *order.others):
        os.set_inheritable(fd, False)  # the lock must end with this process, whatever its children do
    with socket.socket(fileno=order.link) as end, socket.socket(fileno=order.others[-1]) as calls:
        asyncio.run(_main(order, end, calls))


if __name__ == "__main__":
    main()
