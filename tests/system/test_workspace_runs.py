"""Concurrent runs: no guest delays another by its actions or by the files that it leaves."""

from __future__ import annotations

import threading
import time

import pytest

import stockade

pytestmark = pytest.mark.needs("native")


def beside(code: str, **options: object) -> float:
    """Return the duration of another run that begins while ``code`` runs."""
    stockade.run_command(["true"])
    thread = threading.Thread(target=lambda: stockade.run(code, **options))
    thread.start()
    time.sleep(1.5)
    begin = time.monotonic()
    assert stockade.run_command(["true"]).ok
    taken = time.monotonic() - begin
    thread.join()
    return taken


def test_guest_closing_streams_delays_no_other() -> None:
    assert beside("import os, time; os.close(1); os.close(2); time.sleep(5)") < 2


def test_slow_caller_delays_no_other_and_gets_all() -> None:
    policy = stockade.Policy(limits={"file_size": "unlimited"})
    result = stockade.run("open('big', 'wb').write(bytes(15 << 20))", policy=policy, artifacts=["big"])
    assert len(result.artifacts["big"]) == 15 << 20


def test_large_artifacts_are_collected_concurrently() -> None:
    results: list[stockade.Result] = []

    def once(number: int) -> None:
        code = f"for i in range(50): open(f'{{i}}.txt', 'w').write('{number}' * 10000)"
        results.append(stockade.run(code, artifacts=["*.txt"]))

    threads = [threading.Thread(target=once, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    for result in results:
        assert len(result.artifacts) == 50 and result.artifacts_error is None
        assert len(set(b"".join(result.artifacts.values()))) == 1, "files of another run"


def test_cancelled_run_leaves_no_collector() -> None:
    import asyncio

    async def once() -> None:
        async with stockade.AsyncRunner() as box:
            code = "for i in range(3000): open(f'{i}.txt', 'w').write('x')\nimport time; time.sleep(9)"
            task = asyncio.create_task(box.run(code, artifacts=["*"]))
            await asyncio.sleep(1.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await box.run("1")).ok

    asyncio.run(once())
