import json
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade import Guarantee, GuestFailed, Outcome, Policy, ResourceExhausted, SetupError
from stockade.backends.native.capabilities import capabilities
from stockade.core.report import Report
from stockade.planning.plan import plan, plan_for_job
from stockade.runs.limit_states import EXHAUSTED
from stockade.runs.result import Met, Result
from stockade.runs.verdict import sandbox_failed, verdict
from tests.unit import facts as hosts

PLAN = plan(Policy(limits={"cpu_time": 1, "wall_time": 2}), hosts.ROOT_V1, "native", capabilities(hosts.ROOT_V1))
EXITED = 256


def report(**fields):
    return Report.from_wire({
        "status": 0, "started": True, "wall_seconds": 0.1, "cpu_seconds": 0.1, "cpu_source": "cgroup",
        "peak_memory": 1 << 20, "peak_sockets": 0, "locks": 0, "peak_processes": 1, "oom_kills": 0, "oom_outside": 0, "forks_refused": 0, "disk_free": 1, "inodes_free": 1,
        "past_soft_memory": None, "cause": None, "failure": None, "output": [0, 0], "tails": [b"", b""], "channel": b"", "channel_overflow": False,
        "denials": [], "denials_truncated": False,
    } | fields)  # fmt: skip


def judged(**fields):
    return verdict(PLAN, report(**fields), b"", b"")


@pytest.mark.parametrize(
    ("fields", "outcome", "exit_code", "number", "limit"),
    [
        ({}, Outcome.COMPLETED, 0, None, None),
        ({"status": 3 * EXITED}, Outcome.FAILED, 3, None, None),
        ({"status": 124 * EXITED}, Outcome.FAILED, 124, None, None),
        ({"status": int(signal.SIGSEGV)}, Outcome.CRASHED, None, signal.SIGSEGV, None),
        ({"status": int(signal.SIGXFSZ)}, Outcome.LIMIT_EXCEEDED, None, signal.SIGXFSZ, Guarantee.FILE_SIZE),
        ({"status": None, "cause": "wall_time"}, Outcome.LIMIT_EXCEEDED, None, signal.SIGKILL, Guarantee.WALL_TIME),
        ({"status": 0, "oom_kills": 1}, Outcome.LIMIT_EXCEEDED, 0, None, Guarantee.MEMORY),
        ({"status": 0, "cpu_seconds": 1.0}, Outcome.LIMIT_EXCEEDED, 0, None, Guarantee.CPU_TIME),
        (
            {"status": int(signal.SIGXCPU), "cpu_seconds": 0.99},
            Outcome.LIMIT_EXCEEDED,
            None,
            signal.SIGXCPU,
            Guarantee.CPU_TIME,
        ),
        ({"status": int(signal.SIGXCPU)}, Outcome.CRASHED, None, signal.SIGXCPU, None),
        ({"status": 0, "forks_refused": 9}, Outcome.COMPLETED, 0, None, None),
        ({"status": None, "cause": "cancelled"}, Outcome.CANCELLED, None, signal.SIGKILL, None),
        ({"status": None, "cause": "output"}, Outcome.LIMIT_EXCEEDED, None, signal.SIGKILL, Guarantee.OUTPUT),
    ],
)
def test_outcomes(fields, outcome, exit_code, number, limit):
    result = judged(**fields)
    assert (result.outcome, result.exit_code, result.signal, result.limit) == (outcome, exit_code, number, limit)


@pytest.mark.parametrize("fields", [{}, {"status": 9}, {"status": 256}, {"cause": "wall_time"}, {"started": False}])
def test_kill_for_memory_outside_blames_the_sandbox(fields):
    result = judged(oom_outside=1, **fields)
    assert (result.outcome, result.limit) == (Outcome.SANDBOX_FAILED, None)
    assert "because memory ran short outside of the sandbox: its peak was 1 MiB" in result.error.message


def test_a_guest_that_sends_itself_sigxfsz_hides_no_other_limit():
    own = int(signal.SIGXFSZ)
    assert judged(status=own).limits_met[Guarantee.FILE_SIZE].evidence == "ended by SIGXFSZ"
    assert judged(status=own, oom_kills=1).limit is Guarantee.MEMORY
    assert judged(status=own, cpu_seconds=1.0).limit is Guarantee.CPU_TIME
    assert judged(status=own, cause="output").limit is Guarantee.OUTPUT


def test_verdict_reports_a_limit_that_the_guest_survived():
    state = judged(forks_refused=9).limits_met[Guarantee.PROCESSES]
    assert (state.state, state.evidence) == (Met.MET, "cgroup pids.events max 9")
    assert judged().limits_met[Guarantee.PROCESSES].state is Met.NOT_MET
    assert judged().limits_met[Guarantee.OPEN_FILES].state is Met.UNKNOWN
    assert Guarantee.CPU_RATE not in judged().limits_met


@pytest.mark.parametrize(
    "fields",
    [
        {"started": False, "status": 125 * EXITED, "failure": {"kind": "setup", "message": "step root: no"}},
        {"started": False, "status": None},
        {"started": True, "status": 125 * EXITED, "failure": {"kind": "setup", "message": "execve: no memory"}},
        {"cause": "setup", "status": None, "failure": {"kind": "setup", "message": "too long"}},
    ],
)
def test_a_sandbox_that_failed_is_never_a_guest_that_failed(fields):
    result = judged(**fields)
    assert result.outcome is Outcome.SANDBOX_FAILED
    with pytest.raises(SetupError):
        result.check()


@pytest.mark.parametrize(("code", "kind"), [(127, "CommandNotFound"), (126, "NotExecutable")])
def test_a_command_that_is_not_there_is_the_callers_mistake(code, kind):
    result = judged(status=code * EXITED, failure={"kind": "exec", "message": "nope: command not found"})
    assert (result.outcome, result.exit_code, result.error.type) == (Outcome.FAILED, code, kind)


HOSTILE = [
    b"", b"{", b"[]", b"3", b"null", b'{"value": NaN}', b'{"error": 3, "repr": []}', b"\xff\xfe", b"[" * 100_000,
    b'{"value": ' + b"9" * 10_000 + b"}", b'{"error": {"type": 1, "message": "", "traceback": ""}}', b'{"a":1}{"b":2}',
]  # fmt: skip


@pytest.mark.parametrize("channel", HOSTILE, ids=lambda channel: channel[:20])
def test_verdict_drops_malformed_lines_of_the_channel(channel):
    result = judged(channel=channel)
    assert (result.outcome, result.value, result.value_repr, result.error) == (Outcome.COMPLETED, None, None, None)


@given(st.binary(max_size=300))
def test_no_bytes_on_the_channel_change_the_outcome(channel):
    assert judged(channel=channel).outcome is Outcome.COMPLETED
    assert judged(channel=channel, status=EXITED).outcome is Outcome.FAILED


@pytest.mark.parametrize("half", [b"\\ud800", b"\xed\xa0\x80"])
@pytest.mark.parametrize("other", [b"\\udc00", b"\xed\xb0\x80"])
def test_verdict_joins_surrogate_halves(half, other):
    result = judged(channel=b'{"value": ["%b%b"], "repr": "%b"}' % (half, other, half))
    assert (result.value, result.value_repr) == (["\U00010000"], "\ud800")
    assert Result.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_verdict_carries_the_guests_value():
    channel = json.dumps({"value": [1, {"a": None}], "repr": "[1, ...]"}).encode()
    result = judged(channel=channel)
    assert (result.value, result.value_repr) == ([1, {"a": None}], "[1, ...]")


def test_verdict_drops_deep_nesting_at_any_recursion_limit():
    deep = b"[" * 500_000
    lines = [deep, b'{"a": "]]\\\\", "b": "\\"' + b"]" * 2000 + b'", "value": ' + deep]
    for line in lines:
        code = "import sys; sys.setrecursionlimit(10**6); from types import SimpleNamespace as Report; "
        code += "from stockade.runs.verdict import reported_fields; "
        code += f"print(reported_fields(Report(channel={line!r}, channel_overflow=False)))"
        done = subprocess.run([sys.executable, "-"], input=code.encode(), capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (0, b"{}\n")
    wide = {"value": [[[]] * 2000, "[" * 5000 + '\\"' + "[" * 5000]}
    assert judged(channel=json.dumps(wide).encode()).value == wide["value"]


def test_an_overflowing_channel_is_dropped_whole():
    assert judged(channel=b'{"value": 1}', channel_overflow=True).value is None


def test_text_of_streams():
    result = verdict(PLAN, report(output=[12, 3], tails=[b"xyz", b""]), b"ab\xff", b"err")
    assert result.stdout_bytes == b"ab\xffxyz"
    assert result.stdout == "ab\ufffd\n[... 6 bytes omitted ...]\nxyz"
    assert (result.stdout_truncated, result.stderr_truncated, result.stderr) == (True, False, "err")


def test_check_raises_what_the_outcome_amounts_to():
    assert judged().check().ok
    with pytest.raises(GuestFailed, match="exit status 3") as caught:
        judged(status=3 * EXITED).check()
    assert caught.value.result.exit_code == 3
    with pytest.raises(ResourceExhausted, match="wall_time: timer"):
        judged(cause="wall_time", status=None).check()
    with pytest.raises(GuestFailed, match="SIGSEGV"):
        judged(status=int(signal.SIGSEGV)).check()


def test_json_is_json():
    text = json.dumps(judged(cause="wall_time", status=None).as_json())
    assert json.loads(text)["enforcement"]["wall_time"]["strength"] == "supervisor"
    json.dumps(sandbox_failed(PLAN, "why").as_json())


COUNTED = plan(Policy(limits={"operations": 100}), hosts.ROOT_V1, "native", capabilities(hosts.ROOT_V1))
REPORTED = b'{"operations": 100}\n'


def counted(judged_by=COUNTED, **fields):
    result = verdict(judged_by, report(**fields), b"", b"")
    return result.outcome, result.limit, result.limits_met[Guarantee.OPERATIONS]


def test_operations_that_were_used_up_ended_the_run():
    channel = b'{"value": 7, "repr": "7"}\nnonsense{"operations": 1}\n' + REPORTED
    outcome, limit, state = counted(channel=channel, status=EXHAUSTED * EXITED)
    assert (outcome, limit, state.state) == (Outcome.LIMIT_EXCEEDED, Guarantee.OPERATIONS, Met.MET)
    assert state.evidence == "agent: 100 of 100 operations"


@pytest.mark.parametrize(
    ("fields", "outcome", "limit"),
    [
        ({"status": 0}, Outcome.COMPLETED, None),
        ({"status": EXITED}, Outcome.FAILED, None),
        ({"status": int(signal.SIGSEGV)}, Outcome.CRASHED, None),
        ({"status": None, "cause": "cancelled"}, Outcome.CANCELLED, None),
        ({"status": EXHAUSTED * EXITED, "cause": "cancelled"}, Outcome.CANCELLED, None),
        ({"status": EXHAUSTED * EXITED, "cause": "wall_time"}, Outcome.LIMIT_EXCEEDED, Guarantee.WALL_TIME),
        ({"status": EXHAUSTED * EXITED, "oom_kills": 1}, Outcome.LIMIT_EXCEEDED, Guarantee.MEMORY),
        ({"status": EXHAUSTED * EXITED, "cpu_seconds": 99}, Outcome.LIMIT_EXCEEDED, Guarantee.CPU_TIME),
        ({"status": EXHAUSTED * EXITED, "channel_overflow": True}, Outcome.FAILED, None),
    ],
)
def test_verdict_forged_operations_hide_no_other_cause(fields, outcome, limit):
    assert counted(channel=REPORTED, **fields)[:2] == (outcome, limit)


@pytest.mark.parametrize(
    "channel", [b'{"operations": true}', b'{"operations": "100"}', b'{"operations": 99}', b"100", b""]
)
def test_a_count_that_is_none_or_too_low_ends_nothing(channel):
    assert counted(channel=channel, status=EXHAUSTED * EXITED)[:2] == (Outcome.FAILED, None)


@pytest.mark.parametrize("channel", [b'{"operations": -5}', b'{"operations": 9e9}', b'{"operations": 10000000000}'])
def test_the_evidence_is_never_a_figure_of_the_guests_making(channel):
    assert counted(channel=channel)[2].evidence in (
        "agent: 0 of 100 operations", "agent: 100 of 100 operations", "the agent reported nothing",
    )  # fmt: skip


def test_where_nothing_counts_no_word_on_operations_is_taken():
    accepting = plan(
        Policy(limits={"operations": 100}, accept={"operations": "absent"}),
        hosts.ROOT_V1, "native", capabilities(hosts.ROOT_V1),
    )  # fmt: skip
    judged_by = plan_for_job(accepting, "javascript source", counts=False)
    outcome, limit, state = counted(judged_by, channel=REPORTED, status=EXHAUSTED * EXITED)
    assert (outcome, limit, state.state) == (Outcome.FAILED, None, Met.UNKNOWN)
    assert "javascript" in state.evidence


def test_operations_that_nobody_asked_for_are_not_listened_to():
    result = judged(channel=REPORTED, status=EXHAUSTED * EXITED)
    assert (result.outcome, Guarantee.OPERATIONS in result.limits_met) == (Outcome.FAILED, False)
