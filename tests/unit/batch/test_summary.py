from stockade import Usage
from stockade.batch.records import Verdict, VerdictKind
from stockade.batch.summary import Summary
from stockade.cli import eval_summary


def fed(*verdicts):
    summary = Summary()
    for number, verdict in enumerate(verdicts, 1):
        summary.add({**verdict.as_json(), "number": number})
    return summary


def verdict(name, word, problem="", seconds=0.1, memory=1 << 20, **more):
    return Verdict(name, VerdictKind(word), problem=problem, usage=Usage(0.1, seconds, memory, 1, 0), **more)


def test_summary_counts_verdicts_and_pass_at_k():
    summary = fed(
        verdict("a", "passed", "p"), verdict("b", "failed", "p"), verdict("c", "sandbox_failed", "p"),
        verdict("d", "limit_exceeded", "q", limit="memory"), verdict("e", "passed", "q", attempts=3),
    )  # fmt: skip
    assert summary.total == 5
    assert summary.solved() == {"p": (2, 1), "q": (2, 1)}  # a failed sandbox is not a sample
    assert summary.pass_at([1, 2, 10]) == {1: 0.5, 2: 1.0}
    data = summary.as_json([1])
    assert data["verdicts"]["limit_exceeded"] == 1 and data["limits"] == {"memory": 1} and data["retried"] == 1


def test_summary_keeps_ten_slowest_and_largest():
    summary = fed(*(verdict(str(n), "passed", seconds=n / 100, memory=n) for n in range(100)))
    assert [name for name, _ in summary.slowest] == [str(n) for n in range(99, 89, -1)]
    assert summary.largest[0] == ("99", 99)


def test_histogram_counts_each_value_once():
    summary = fed(*(verdict(str(n), "passed", seconds=2.0**n / 1000) for n in range(20)))
    assert sum(count for _, count in summary.seconds.filled()) == 20
    assert summary.seconds.filled()[-1][0] is None  # 524 seconds are beyond the last bound


def test_summary_text_has_no_terminal_commands():
    text = "\n".join(eval_summary.lines(fed(verdict("\x1b[2J", "passed", problem="\r\x07")), [1]))
    assert text.replace("\n", "").isprintable()
    assert "pass@1 1.0000" in text


def test_summary_without_memory_has_no_memory_chart():
    text = "\n".join(eval_summary.lines(fed(verdict("a", "passed", memory=None)), [1]))
    assert "peak memory" not in text and "wall time" in text


def test_summary_without_verdicts_has_no_table():
    assert list(eval_summary.lines(Summary(), [1])) == ["no verdicts"]
