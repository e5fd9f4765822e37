"""The suite for each kind of caller: the plan with a real run against each limit, then the project's own tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.hosts.machine import Answer, Machine, MachineError

MAIN = ("root", "delegated", "none")

SELECTED = ("tests/hosts/guest/test_contract.py",)
"""What touches groups, limits and processes."""
_UNIT = (
    "planning/test_plan",
    "policy/test_model",
    "core/test_record",
    "warden/run/test_head_tail",
    "core/test_units",
    "runs/test_verdict",
)
UNIT = tuple(f"tests/unit/{name}.py" for name in _UNIT)
"""Pure functions: once is enough. Those that draw hundreds of examples take minutes on an emulated CPU."""
# One of the two faces is enough here: what differs between hosts lies below both.
_FACE = "not asyncio"
# Bounds of a tenth of a second, that a CPU ten to twenty times slower cannot keep; guest/holds.py has its own.
LEFT_OUT = ("test_wall_time_exceeded_ends_run", "test_cpu_time_exceeded_ends_run", "test_output_before_a_kill_is_kept")
ENVIRONMENT = {
    "PYTHONPATH": "/project/src:/project:/opt/python",
    "PYTHONDONTWRITEBYTECODE": "1",
    "STOCKADE_SLOWER": "5",
    "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis",
}


@dataclass(frozen=True)
class Held:
    """The result of ``guest/holds.py`` as one kind of caller."""

    kind: str
    facts: dict[str, Any]
    seconds: float
    left: tuple[str, ...]

    def of(self, limit: str) -> str:
        """Return the plan's mechanism and strength for ``limit``."""
        plan: dict[str, str] = self.facts["plan"]
        return plan.get(limit, plan.get("refused", ""))

    def ran(self, limit: str) -> dict[str, Any]:
        """Return the result of the run against ``limit``."""
        found: dict[str, Any] = self.facts["ran"].get(limit, {})
        return found


def compile_all(machine: Machine) -> None:
    """Compile the project once, since each process would otherwise spend seconds on it under emulation."""
    machine.prepare(["python3", "-m", "compileall", "-q", "/project/src", "/project/tests"])


def hold(machine: Machine, kind: str) -> Held:
    """Plan as ``kind``, and run against each limit, or only against the two most important if it is not a main kind."""
    limits = [] if kind in MAIN else ["memory_together", "processes"]
    command = ["python3", "/project/tests/hosts/guest/holds.py", *limits]
    answer = machine.run(kind, command, environment=ENVIRONMENT, seconds=120)
    try:
        facts = json.loads(answer.output.splitlines()[-1])
    except (IndexError, ValueError):
        stuck = "\n".join(answer.stuck)
        raise MachineError(f"{kind}: exit status {answer.status}\n{answer.output}\n{stuck}") from None
    return Held(kind, facts, answer.seconds, answer.left)


def test(
    machine: Machine,
    kind: str,
    selected: tuple[str, ...] = SELECTED,
    show: Callable[[str], object] = lambda text: None,
    seconds: float = 480.0,
) -> Answer:
    """Run the project's tests as ``kind``."""
    expression = " and ".join([_FACE, *(f"not {name}" for name in LEFT_OUT)])
    command = [
        "python3",
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-q",
        "--durations=5",
        "-k",
        expression,
        "--hypothesis-profile=ci",
        *selected,
    ]
    return machine.run(kind, command, environment=ENVIRONMENT, show=show, seconds=seconds)


def table(held: list[Held]) -> str:
    """Return two tables in Markdown: the holder of each limit, and the results of the runs."""
    planned = [[item.kind, *(item.of(limit) for limit in _LIMITS)] for item in held]
    came = [[item.kind, *(show(item.ran(name)) for name, show in _RUNS.values()), _groups(item)] for item in held]
    return f"{_markdown(['caller', *_LIMITS], planned)}\n\n{_markdown(['caller', *_RUNS, 'groups'], came)}"


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _groups(item: Held) -> str:
    return ", ".join(item.facts["paths"] or sorted(set(item.facts["lost"].values())))


def _came_to(run: dict[str, Any]) -> str:
    if "outcome" not in run:
        return str(run.get("refused", "not run"))
    what = [run["outcome"] if not run["limit"] else f"{run['outcome']}: {run['limit']}"]
    what += [run["error"]] if run["error"] else []
    what += [" ".join(run["stdout"].split())] if run["stdout"] else []
    return f"{', '.join(what)} ({(run['peak_memory'] or 0) >> 20} MiB, {run['cpu_seconds']:.2f} s CPU)"


def _rate(run: dict[str, Any]) -> str:
    return f"{run['cpu_seconds'] / run['wall_seconds']:.2f}" if run.get("wall_seconds") else _came_to(run)


_LIMITS = ("memory", "swap", "processes", "cpu_time", "cpu_rate")
_RUNS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "200 MiB under 64 MiB": ("memory", _came_to),
    "4 x 48 MiB under 128 MiB": ("memory_together", _came_to),
    "150 MiB of files under 64 MiB": ("memory_files", _came_to),
    "40 forks under 8": ("processes", _came_to),
    "1 s of CPU": ("cpu_time", _came_to),
    "2 s of work under 0.25 cores": ("cpu_rate", _rate),
}
