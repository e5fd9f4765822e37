"""The metered backend: fuel as the limit on operations, in a sandbox whose other guarantees are those of native."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import stockade
from stockade import Guarantee, JobError, Outcome, PlanError, Policy, Strength
from stockade.embedded import Caps, Runtime
from stockade.embedded import backend as metered
from stockade.planning.plan import Plan
from stockade.runs.result import Met

pytestmark = pytest.mark.needs("native")
SOURCE = "total = 0\nfor n in range(200):\n    total += n\nprint('half')\n{'total': total, 'words': sorted('bca')}"
KEEPER = "while True:\n    try:\n        while True: pass\n    except BaseException: pass\n    finally: pass"


def run(source: str, **limits: Any) -> stockade.Result:
    return stockade.run(source, backend="metered", policy=Policy(limits=limits))


def counted(result: stockade.Result) -> str:
    return result.limits_met[Guarantee.OPERATIONS].evidence


def test_operations_are_the_fuel_of_a_runtime_to_the_unit() -> None:
    runtime = Runtime(Caps(fuel=10**6), in_process=True)
    value = runtime.run(SOURCE)
    fuel = runtime.usage.fuel
    enough = run(SOURCE, operations=fuel)
    assert (enough.outcome, enough.value, enough.stdout) == (Outcome.COMPLETED, value, "half\n")
    assert counted(enough) == f"agent: {fuel} of {fuel} operations"
    short = run(SOURCE, operations=fuel - 1)
    assert (short.outcome, short.limit, short.value) == (Outcome.LIMIT_EXCEEDED, Guarantee.OPERATIONS, None)
    assert counted(short) == f"agent: {fuel - 1} of {fuel - 1} operations"


def test_handlers_do_not_keep_the_limit() -> None:
    result = run(KEEPER, operations=5000)
    assert (result.limit, result.stdout, result.error and result.error.type) == (
        Guarantee.OPERATIONS, "", "ResourceExhausted",
    )  # fmt: skip
    assert result.error is not None
    assert 'File "main.py", line' in result.error.traceback


def test_other_limits_end_a_script_as_on_native() -> None:
    assert run(KEEPER, wall_time=2).limit is Guarantee.WALL_TIME
    assert run("kept = []\nwhile True: kept.append('x' * 1_000_000 + str(len(kept)))", memory="64MiB").limit is (
        Guarantee.MEMORY
    )
    flood = run("for _ in range(100): print('x' * 1000)", output="4KiB")
    assert flood.limits_met[Guarantee.OUTPUT].state is Met.MET
    assert len(flood.stdout_bytes) <= 4096


def test_receipt_is_that_of_the_sandbox_and_of_the_meter() -> None:
    policy = Policy(limits={"operations": 1000})
    own, around = (stockade.plan(policy, backend=name).enforcement for name in ("metered", "native"))
    assert {each for each in Guarantee if own[each] != around[each]} == {Guarantee.OPERATIONS}
    held = own[Guarantee.OPERATIONS]
    assert (held.mechanism, held.strength) == ("metered interpreter", Strength.RUNTIME)
    assert held.note.startswith("exact: ")
    assert around[Guarantee.OPERATIONS].strength is Strength.COOPERATIVE
    result = stockade.run("1", backend="metered", policy=policy)
    assert (result.backend, dict(result.enforcement)) == ("metered", dict(own))


def test_output_is_streamed_while_the_script_runs() -> None:
    source = "print('first')\nwhile True: pass"
    with stockade.Runner(backend="metered", timeout=60).stream(source) as events:
        for event in events:
            if isinstance(event, stockade.Output):
                assert event.data == b"first\n"
                events.cancel()
    assert events.result.outcome is Outcome.CANCELLED


def test_errors_are_those_of_the_script() -> None:
    result = run("def f():\n    return 1 / 0\n\nf()")
    assert (result.outcome, result.exit_code, result.error and result.error.type) == (
        Outcome.FAILED, 1, "ZeroDivisionError",
    )  # fmt: skip
    assert result.stderr == '  File "main.py", line 2\nZeroDivisionError: division by zero\n'
    refused = run("import os")
    assert refused.error is not None
    assert refused.error.message.startswith("No module named 'os' in scripts")
    no_text = stockade.run(b"'\xff'", backend="metered")
    assert no_text.error is not None
    assert no_text.error.type == "SyntaxError"
    assert run("class A: pass\nA()").value_repr == "<no data: a value of type 'A' is not data>"


CAPPED = {
    "heap_objects": ("kept = []\nwhile True: kept.append([])", 1000),
    "frames": ("def f(): return f()\nf()", 50),
    "symbols": ("; ".join(f"name{i} = 1" for i in range(30)), 20),
    "value_bytes": ("'a' * 10_000", 1000),
}


@pytest.mark.parametrize("cap", CAPPED)
def test_policy_sets_each_cap_of_the_meter(cap: str) -> None:
    source, figure = CAPPED[cap]
    script = f"try:\n  {source.replace(chr(10), chr(10) + '  ')}\nexcept BaseException: pass\nfinally: print('kept')"
    limits, caps = {"operations": 10**6, "wall_time": 60}, {"heap_objects": 10**6, "frames": 100, "symbols": 1000}
    result = stockade.run(script, backend="metered", policy=Policy(limits=limits, languages=caps | {cap: figure}))
    assert (result.outcome, result.exit_code, result.stdout) == (Outcome.FAILED, 1, "")
    assert result.error is not None
    assert (result.error.type, result.error.message) == (
        "ResourceExhausted", f"{cap}: the script reached the cap of {figure}",
    )  # fmt: skip


def test_caps_of_the_meter_are_refused_by_name_elsewhere() -> None:
    policy = Policy(languages={"frames": 64, "value_bytes": "1MiB"})
    for backend in ("native", "process", None):
        with pytest.raises(PlanError, match=r"languages\.frames: only backend='metered' bounds it"):
            stockade.plan(policy, backend=backend)
    with pytest.raises(PlanError, match=r"languages\.value_bytes"):
        stockade.run_command(["true"], policy=policy)
    with pytest.raises(stockade.PolicyError, match="must be at most 2,000"):
        Policy(languages={"frames": 2001})


NEVER = [
    ({"arguments": ["x"]}, "arguments: a metered script has no command line"),
    ({"stdin": "x"}, "stdin: a metered script cannot read"),
    ({"files": {"a": b""}}, "files: a metered script cannot open"),
    ({"artifacts": ["*"]}, "artifacts: a metered script cannot write"),
    ({"environment": {"A": "b"}}, "environment: a metered script cannot read"),
    ({"requirements": ["six"]}, "packages: a metered script imports only"),
    ({"language": "ruby"}, "language: the metered backend runs Python source, not ruby"),
    ({"warm": True}, "warm: a metered script starts in a fresh interpreter"),
]


@pytest.mark.parametrize(("option", "text"), NEVER, ids=lambda each: next(iter(each)) if type(each) is dict else "")
def test_job_that_a_script_cannot_use_is_refused_by_name(
    option: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stockade.api.packages.provide.provided", lambda *_: pytest.fail("packages were provided"))
    with pytest.raises(JobError, match=text):
        stockade.run("1", backend="metered", **option)


def test_commands_and_other_pythons_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobError, match="argv: the metered backend runs Python source, and no command"):
        stockade.run_command(["true"], backend="metered")
    with pytest.raises(stockade.BackendUnavailable, match="no sandbox can live in it"):
        stockade.Sandbox.create(backend="metered")
    with pytest.raises(PlanError, match="cannot bound a network"):
        stockade.plan(Policy(network={"allow": ["example.org:443"]}), backend="metered")
    monkeypatch.setattr(metered, "PYTHONS", frozenset({(3, 99)}))
    with pytest.raises(JobError, match=r"interpreter: the metered backend is vetted for CPython 3\.99"):
        run("1")


def test_trust_is_that_of_the_sandbox_around_the_interpreter() -> None:
    def planned(**fields: Any) -> Plan:
        trust = fields.pop("trust")
        return stockade.Runner(Policy(**fields), backend="metered", trust=trust).plan

    assert planned(trust="semi-trusted").backend == "metered"
    with pytest.raises(PlanError, match="untrusted code"):
        planned(trust="untrusted")
    assert planned(trust="untrusted", isolation="namespaces").backend == "metered"
    with pytest.raises(PlanError, match="lifts memory"):
        planned(trust="semi-trusted", limits={"memory": "unlimited"})


def test_command_line_passes_no_input_on() -> None:
    argv = [sys.executable, "-m", "stockade", "run", "--backend", "metered", "-c", "print(6 * 7)"]
    done = subprocess.run(argv, input="unread", capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")
