"""``stockade eval``: its input and output, and every way to end it in the middle."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.support import host

pytestmark = pytest.mark.needs("native")

SMALL = ("--limit", "memory=64MiB", "--limit", "wall_time=10s")


def write(folder: Path, programs, name="p.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(program) + "\n" for program in programs))
    return path


def shells(count: int, **more):
    return [
        {"id": f"p{n}", "language": "shell", "source": f"echo {n}", "expected": str(n), **more} for n in range(count)
    ]


def verdicts(folder: Path, name="v.jsonl"):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_eval_gives_verdicts_of_every_kind(stockade, folder):
    write(folder, [
        {"id": "right", "problem": "a", "source": "print(int(input()) + 1)", "stdin": "1", "expected": "2"},
        {"id": "wrong", "problem": "a", "source": "print(3)", "expected": "2"},
        {"id": "failed", "problem": "b", "source": "1 / 0"},
        {"id": "crashed", "source": "import os; os.kill(os.getpid(), 11)"},
        {"id": "time", "source": "while True: pass", "limits": {"cpu_time": 0.1}},
        {"id": "flood", "source": "while True: print('x' * 1000)"},
        {"id": "cases", "source": "print(input())", "cases": [{"stdin": "1", "expected": "1"}, {"expected": "2"}]},
        {"id": "files", "source": "print(open('a').read())", "files": {"a": "hello"}, "expected": "hello"},
        {"id": "tested", "answer": "def f(x): return x + 1", "test": "assert f(1) == 2", "functions": ["f"]},
        {"id": "untrue", "answer": "def f(x): return x", "test": "assert f(1) == 2", "functions": ["f"]},
    ])  # fmt: skip
    done = stockade("eval", "p.jsonl", "-o", "v.jsonl", "--json", "--ordered")
    assert done.returncode == 0, done.stderr
    found = {verdict["id"]: verdict for verdict in verdicts(folder)}
    assert {name: (verdict["verdict"], verdict["limit"]) for name, verdict in found.items()} == {
        "right": ("passed", None), "wrong": ("wrong_output", None), "failed": ("failed", None),
        "crashed": ("crashed", None), "time": ("limit_exceeded", "cpu_time"), "flood": ("limit_exceeded", "output"),
        "cases": ("failed", None), "files": ("passed", None), "tested": ("passed", None),
        "untrue": ("wrong_output", None),
    }  # fmt: skip
    assert list(found) == [verdict["id"] for verdict in sorted(found.values(), key=lambda verdict: verdict["number"])]
    assert [case["verdict"] for case in found["cases"]["cases"]] == ["passed", "failed"]
    assert len(found["flood"]["cases"][0]["stdout"]) < 5000
    peak = found["right"]["usage"]["peak_memory"]
    assert peak is None or peak > 1 << 20  # without a group that counts it, a short run may end between two samples
    summary = json.loads(done.stdout)
    assert summary["verdicts"]["passed"] == 3 and summary["problems"]["a"] == {"passed": 1, "wrong_output": 1}
    assert summary["pass_at"] == {"1": 0.25}


def test_eval_bad_lines_are_reported_rest_is_judged(stockade, folder):
    path = write(folder, [*shells(3), {"id": "p1", "source": ""}, {"id": "x", "sorce": ""}])
    with path.open("a") as file:
        file.write(
            '{"id": "huge", "source": "", "limits": {"memory": "1TiB"}}\n{"id": "who", "source": "", "profile": "x"}\nnot\n'
        )
    done = stockade("eval", "p.jsonl", "-o", "v.jsonl", "--json")
    assert done.returncode == 1
    lines = done.stderr.decode().splitlines()
    assert lines[0] == "stockade: p.jsonl:4: id = 'p1': program 2 has the same id"
    assert lines[1] == "stockade: p.jsonl:5: sorce: there is no such field; did you mean 'source'?"
    assert "p.jsonl:6: may need 1" in lines[2] and "iB of memory; the batch may use" in lines[2]
    assert "p.jsonl:7: profile" in lines[3] and "strict" in lines[3]
    assert "p.jsonl:8: not JSON" in lines[4]
    assert [bad["line"] for bad in json.loads(done.stdout)["bad_lines"]] == [4, 5, 6, 7, 8]
    assert Counter(verdict["verdict"] for verdict in verdicts(folder)) == {"passed": 3}


def test_eval_without_file_prints_verdicts_in_order(stockade, folder):
    write(folder, shells(6))
    done = stockade("eval", "p.jsonl", "--ordered", "--jobs", "4")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [f"p{n}" for n in range(6)]
    assert b"passed   6         100.0%" in done.stderr


def test_eval_folder_judges_its_solutions(stockade, folder):
    place = folder / "problems" / "sum"
    (place / "solutions").mkdir(parents=True)
    (place / "1.in").write_text("1 2\n")
    (place / "1.out").write_text("3\n")
    (place / "solutions" / "good.py").write_text("print(sum(map(int, input().split())))\n")
    (place / "solutions" / "bad.sh").write_text("echo 4\n")
    done = stockade("eval", "problems", "-o", "v.jsonl", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    found = {verdict["id"]: verdict["verdict"] for verdict in verdicts(folder)}
    assert found == {"sum/good.py": "passed", "sum/bad.sh": "wrong_output"}


def test_eval_again_when_done_changes_nothing(stockade, folder):
    write(folder, shells(3))
    stockade("eval", "p.jsonl", "-o", "v.jsonl")
    before = (folder / "v.jsonl").read_bytes()
    done = stockade("eval", "p.jsonl", "-o", "v.jsonl")
    assert done.returncode == 0 and b"3 of 3 were judged before" in done.stderr
    assert (folder / "v.jsonl").read_bytes() == before


@pytest.mark.parametrize("change", ["input", "limits", "tests", "file"])
def test_eval_other_batch_is_refused(stockade, folder, change):
    write(folder, shells(3))
    stockade("eval", "p.jsonl", "-o", "v.jsonl")
    before = (folder / "v.jsonl").read_bytes()
    more = {"limits": ["--limit", "memory=99MiB"], "tests": ["--tests", "shared"]}.get(change, [])
    if change == "input":
        write(folder, shells(4))
    if change == "file":
        (folder / "v.jsonl.batch").unlink()
    done = stockade("eval", "p.jsonl", "-o", "v.jsonl", *more)
    assert done.returncode == 2 and b"--overwrite" in done.stderr
    assert (folder / "v.jsonl").read_bytes() == before
    done = stockade("eval", "p.jsonl", "-o", "v.jsonl", "--overwrite", *more)
    assert done.returncode == 0 and len(verdicts(folder)) == (4 if change == "input" else 3)


@pytest.mark.timing
def test_eval_ctrl_c_leaves_resumable_file(start, stockade, folder):
    write(folder, [*shells(40), {"id": "long", "source": "import time; time.sleep(5)"}, *shells(0)])
    words = ("eval", "p.jsonl", "-o", "v.jsonl", "--jobs", "2", *SMALL)
    process = start(*words)
    wait_for_lines(folder / "v.jsonl", 5)
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and time.monotonic() - begun < 5
    first = len(verdicts(folder))
    lines = err.decode().splitlines()
    assert lines[-2] == f"stockade: {first} of 41 verdicts are in v.jsonl; to resume:"
    assert lines[-1] == f"stockade:   stockade {' '.join(words)}"
    assert stockade(*words).returncode == 0
    assert sorted(verdict["number"] for verdict in verdicts(folder)) == list(range(1, 42))


def test_eval_repeated_ctrl_c_acts_once(start, folder):
    write(folder, shells(60))
    for _ in range(4):
        process = start("eval", "p.jsonl", "-o", "v.jsonl", "--overwrite", "--jobs", "2", *SMALL)
        wait_for_lines(folder / "v.jsonl", 3)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.0005)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert b"Traceback" not in err and b"to resume:" in err
        (folder / "v.jsonl").unlink()


def test_eval_killed_often_keeps_each_verdict_once(start, stockade, folder):
    count, random_ = 300, random.Random(5)
    write(folder, shells(count))
    words = ("eval", "p.jsonl", "-o", "v.jsonl", "--quiet", *SMALL)
    kept: list[bytes] = []
    running: list[int] = []
    for _ in range(6):
        process = start(*words)
        wait_for_lines(folder / "v.jsonl", len(kept) + random_.randrange(1, 30))
        time.sleep(random_.uniform(0, 0.02))
        running += host.descendants(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = (folder / "v.jsonl").read_bytes().split(b"\n")[:-1]
        assert now[: len(kept)] == kept  # earlier verdicts stay unchanged
        kept = now
    assert len(kept) < count  # otherwise no kill hit a running batch
    assert stockade(*words).returncode == 0
    assert Counter(verdict["id"] for verdict in verdicts(folder)) == Counter(f"p{n}" for n in range(count))
    assert all(verdict["verdict"] == "passed" for verdict in verdicts(folder))
    assert len(running) >= 6  # each start had a warden and its runs
    assert host.eventually(lambda: not [pid for pid in running if host.state(pid) not in {"", "Z", "X"}], 5)


def test_eval_full_disk_ends_in_order(start, stockade, folder):
    """A bound on the size of files replaces a full disk: a write is cut short, and the next one fails."""
    write(folder, shells(30))
    words = ("eval", "p.jsonl", "-o", "v.jsonl", "--quiet", *SMALL)
    process = start(*words, file_size=4000)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 125
    first = len(verdicts(folder))
    assert 0 < first < 30
    assert (
        f"stockade: v.jsonl: File too large\nstockade: {first} of 30 verdicts are in v.jsonl; to resume:"
        in err.decode()
    )
    assert stockade(*words).returncode == 0
    assert sorted(verdict["number"] for verdict in verdicts(folder)) == list(range(1, 31))


def test_eval_second_writer_is_refused(start, stockade, folder):
    write(folder, [{"id": "long", "source": "import time; time.sleep(3)"}])
    process = start("eval", "p.jsonl", "-o", "v.jsonl")
    host.eventually((folder / "v.jsonl").exists, 10)
    done = stockade("eval", "p.jsonl", "-o", "v.jsonl")
    assert done.returncode == 2 and b"another batch is writing to this file" in done.stderr
    process.communicate(timeout=30)
    assert len(verdicts(folder)) == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "Missing argument"),
        (("nowhere.jsonl",), "nowhere.jsonl: No such file or directory"),
        (("p.jsonl", "more"), "more: expected one file or folder"),
        (("p.jsonl", "--overwrite"), "--overwrite needs -o FILE"),
        (("p.jsonl", "--report", "r.html"), "--report needs -o FILE"),
        (("p.jsonl", "--jobs", "0"), "Invalid value for '--jobs'"),
        (("p.jsonl", "--memory", "much"), "memory = 'much': expected a size"),
        (("p.jsonl", "--memory", "900TiB"), "that are available"),
        (("p.jsonl", "--memory", "64MiB"), "each program may need "),
        (("p.jsonl", "--k", "0"), "--k 0: expected numbers of at least 1"),
        (("p.jsonl", "--k", "x"), "--k x: expected numbers of at least 1"),
        (("p.jsonl", "--solutions", "s"), "--solutions needs a folder"),
        (("p.jsonl", "-o", "/dev/null"), "not a regular file"),
        (("p.jsonl", "-o", "."), "Is a directory"),
        (("mbpp",), "mbpp: expected FILE [SAMPLES], got 0 files"),
        (("p.jsonl", "--limit", "memory=1KiB"), "limits.memory"),
    ],
)
def test_eval_bad_usage_runs_nothing(stockade, folder, words, complaint):
    write(folder, shells(1))
    done = stockade("eval", *words)
    assert done.returncode == 2 and complaint in done.stderr.decode(), done.stderr
    assert done.stdout == b""


def test_eval_shows_bar_on_terminal(folder, start):
    import pty

    write(folder, shells(60))
    master, slave = pty.openpty()
    process = start("eval", "p.jsonl", "-o", "v.jsonl", *SMALL, stderr=slave, stdout=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    assert process.wait(timeout=30) == 0
    assert shown.startswith(b"checking the programs\r\x1b[K")
    assert b"/60 " in shown and b"/s" in shown and b"ok " in shown and b"\r[#" in shown
    assert b"60 judged in" in shown and b"passed   60" in shown


def wait_for_lines(path: Path, count: int) -> None:
    def there() -> bool:
        return path.exists() and path.read_bytes().count(b"\n") >= count

    assert host.eventually(there, 60)
