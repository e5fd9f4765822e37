"""Lines and turns of loops that the agents count in real interpreters, and a guest's attempts to forge the count."""

import os
import shutil
from functools import lru_cache, partial
from pathlib import Path

import pytest

import stockade
from stockade import Guarantee, Outcome, PlanError, Policy, Strength
from stockade.languages.agents import python_agent
from stockade.runs.limit_states import EXHAUSTED
from stockade.runs.result import Met

ENDLESS = {
    "python": {
        "empty": "while True: pass",
        "one line": "n = 0\nwhile True: n += 1",
        "lines": "n = 0\nwhile True:\n    n += 1",
        "for": "for _ in iter(int, 1): pass",
        "comprehension": "[_ for _ in iter(int, 1)]",
        "generator": "sum(_ for _ in iter(int, 1))",
        "function": "def f(n): return 1 if n < 2 else f(n - 1) + f(n - 2)\nf(60)",
        "lambda": "f = lambda n: 1 if n < 2 else f(n - 1) + f(n - 2)\nf(60)",
        "text": "exec('while True: pass')",
        "module": "import helper",
        "caught": "try:\n    while True: pass\nexcept BaseException: print('caught')\nfinally: print('finally')",
        "exit handler": "import atexit\n@atexit.register\ndef f():\n    while True: pass",
        "thread": "import threading\ndef f():\n    while True: pass\nthreading.Thread(target=f).start()",
        "asyncio": "import asyncio\nasync def f():\n    while True: await asyncio.sleep(0)\nasyncio.run(f())",
    },
    "ruby": {
        "empty": "while true do end",
        "modifier": "n = 0\nn += 1 while true",
        "until": "until false; end",
        "begin": "n = 0\nbegin; n += 1; end while n",
        "loop": "loop {}",
        "block": "1.step { }",
        "method": "def f(n) = n < 2 ? 1 : f(n - 1) + f(n - 2)\nf(60)",
        "redo": "[1].each { redo }",
        "retry": "begin; raise; rescue; retry; end",
        "text": "eval('loop { 1 }')",
        "module": "require 'helper'",
        "relative": "require_relative 'helper'",
        "caught": "begin\n  loop { }\nrescue Exception\n  puts 'caught'\nensure\n  puts 'ensure'\nend",
        "exit handler": "at_exit { loop {} }",
        "thread": "Thread.new { loop {} }.join",
    },
}
HELPERS = {"helper.py": "while True: pass", "helper.rb": "while true do end"}
CASES = [
    pytest.param(
        language, source, id=f"{language}: {name}", marks=pytest.mark.needs(language) if language == "ruby" else ()
    )
    for language, sources in ENDLESS.items()
    for name, source in sources.items()
]
pytestmark = pytest.mark.needs("native")


def bounded(most, **more):
    return Policy(limits={"operations": most, "wall_time": 20, **more})


@lru_cache(maxsize=1)
def others():
    """Return one interpreter of each Python version installed beside ours, or those that a variable names."""
    found = (shutil.which(f"python3.{minor}") for minor in range(8, 16))
    named = os.environ.get("STOCKADE_PYTHONS", "").split(":")
    return [path for path in (*found, *named) if path and _answers(path)]


def _answers(path):
    try:
        return bool(stockade.run("1", interpreter=path).ok)
    except stockade.JobError:
        return False


@pytest.mark.parametrize(("language", "source"), CASES)
def test_endless_loop_ends_by_operations(language, source):
    result = stockade.run(source, language=language, files=HELPERS, policy=bounded(2000))
    assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.OPERATIONS), result
    assert result.limits_met[Guarantee.OPERATIONS].evidence == "agent: 2000 of 2000 operations"
    assert (result.exit_code, result.stdout) == (EXHAUSTED, "")
    assert result.enforcement[Guarantee.OPERATIONS].strength is Strength.COOPERATIVE


def test_traceback_of_a_deep_recursion_ends_with_the_code():
    result = stockade.run("def f(): f()\nf()", policy=bounded(100_000))
    assert result.error.type == "RecursionError" and "agent" not in result.error.traceback + result.stderr, result


@pytest.mark.parametrize("name", ENDLESS["python"])
def test_every_installed_python_counts_alike(name):
    for interpreter in others():
        result = stockade.run(ENDLESS["python"][name], interpreter=interpreter, files=HELPERS, policy=bounded(2000))
        assert result.limit is Guarantee.OPERATIONS, (interpreter, result)


@pytest.mark.parametrize(("source", "least", "most"), [
    ("", 0, 1),
    ("x = 1\ny = 2\nx + y", 3, 5),
    ("for n in range(100): pass", 100, 104),
    ("n = 0\nwhile n < 100:\n    n += 1", 200, 205),
    ("import json, re, decimal\njson.dumps([1] * 1000)", 2, 4),
])  # fmt: skip
def test_python_counts_own_lines_and_turns(source, least, most):
    for interpreter in (None, *others()):
        result = stockade.run(source, interpreter=interpreter, policy=bounded(10_000))
        assert result.ok
        state = result.limits_met[Guarantee.OPERATIONS]
        count = int(state.evidence.split()[1])
        assert (state.state, least <= count <= most) == (Met.NOT_MET, True), (interpreter, state.evidence)


@pytest.mark.needs("ruby")
@pytest.mark.parametrize(("source", "least", "most"), [
    ("", 0, 1),
    ("x = 1\ny = 2\nx + y", 3, 4),
    ("100.times { }", 100, 102),
    ("n = 0\nn += 1 while n < 100", 100, 105),
    ("require 'set'; require 'optparse'; require 'json'; JSON.generate([1] * 1000)", 1, 3),
])  # fmt: skip
def test_ruby_counts_own_lines_and_turns(source, least, most):
    result = stockade.run(source, language="ruby", policy=bounded(10_000))
    assert result.ok, result.stderr
    count = int(result.limits_met[Guarantee.OPERATIONS].evidence.split()[1])
    assert least <= count <= most


def test_output_before_the_limit_is_kept():
    result = stockade.run("print('a')\nprint('b', end='')\nwhile True: pass", policy=bounded(50))
    assert (result.stdout, result.limit) == ("a\nb", Guarantee.OPERATIONS)
    late = "import threading, time\ndef f():\n    time.sleep(0.1)\n    while True: pass\nthreading.Thread(target=f).start()\n7"
    result = stockade.run(late, policy=bounded(500))
    assert (result.value, result.limit) == (7, Guarantee.OPERATIONS)


@pytest.mark.needs("ruby")
@pytest.mark.parametrize(("language", "source"), [
    ("python", "import os\npid = os.fork()\nwhile pid == 0: pass\nos.waitpid(pid, 0)[1] >> 8"),
    ("ruby", "pid = fork { loop {} }; Process.wait(pid); $?.exitstatus"),
])  # fmt: skip
def test_forked_child_past_its_count_ends_alone(language, source):
    result = stockade.run(source, language=language, policy=bounded(500))
    assert (result.outcome, result.value) == (Outcome.COMPLETED, EXHAUSTED)


@pytest.mark.parametrize("source", [
    "import sys\nsys.settrace(None)\nif hasattr(sys, 'monitoring'): sys.monitoring.set_events(4, 0)\nfor n in range(9999): pass",
    "import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'for n in range(9999): pass'], check=True)",
    "sum(range(10 ** 6))",
])  # fmt: skip
def test_other_programs_are_not_counted(source):
    result = stockade.run(source, policy=bounded(1000))
    assert (result.outcome, result.limits_met[Guarantee.OPERATIONS].state) == (Outcome.COMPLETED, Met.NOT_MET)


@pytest.mark.parametrize(("end", "outcome"), [
    ("os._exit(0)", Outcome.COMPLETED), ("os._exit(1)", Outcome.FAILED), ("os.abort()", Outcome.CRASHED),
    ("os.close(3); os._exit(0)", Outcome.COMPLETED),
])  # fmt: skip
def test_forged_report_changes_no_other_end(end, outcome):
    forged = "import os\nos.write(3, b'{\"operations\": 1000}\\n')\n"
    assert stockade.run(forged + end, policy=bounded(1000)).outcome is outcome


def test_forged_report_cannot_hide_kernel_limit():
    source = "import os\nos.write(3, b'{\"operations\": 1000}\\n')\nx = bytearray(500 << 20)\nos._exit(122)"
    result = stockade.run(source, policy=bounded(1000, memory="64MiB"))
    assert result.limit in (Guarantee.MEMORY, None)
    assert not result.ok


def test_job_does_not_see_the_figure():
    for source in ("import sys; sys.argv[1:]", "ARGV"):
        language = "ruby" if source == "ARGV" else "python"
        if shutil.which(language) or language == "python":
            result = stockade.run(source, language=language, arguments=["7"], policy=bounded(1000))
            assert result.value == ["7"]


@pytest.mark.parametrize(("what", "kind"), [
    (partial(stockade.run, "echo 1", language="shell"), "shell source"),
    (partial(stockade.run, "1", language="javascript"), "javascript source"),
    (partial(stockade.run_command, ["echo", "1"]), "a command"),
])  # fmt: skip
def test_uncounted_job_is_refused_or_reported(what, kind):
    with pytest.raises(PlanError) as caught:
        what(policy=bounded(10))
    assert kind in caught.value.missing["operations"]
    assert "accept={'operations': 'absent'}" in caught.value.missing["operations"]
    if kind == "javascript source" and not shutil.which("node"):
        return
    result = what(policy=Policy(limits={"operations": 10}, accept={"operations": "absent"}))
    assert result.ok
    held = result.enforcement[Guarantee.OPERATIONS]
    assert (held.strength, kind in held.note) == (Strength.ABSENT, True)
    assert result.limits_met[Guarantee.OPERATIONS].state is Met.UNKNOWN


def test_agents_and_verdict_share_exit_status():
    assert python_agent.EXHAUSTED == EXHAUSTED
    ruby = Path(python_agent.__file__).with_name("ruby_agent.rb").read_text(encoding="utf-8")
    assert f"EXHAUSTED = {EXHAUSTED} " in ruby
