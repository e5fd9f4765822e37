"""Rules turn the ends of runs into alerts, and remember a bounded amount."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade import JobError
from stockade.observe.monitor import MOST_VALUES, Judge
from stockade.observe.records import Ended, error_class
from stockade.observe.rules import RULES, DeniedCalls, EscapeAttempt, LimitsMet, NewFailure

MET = {"outcome": "limit_exceeded", "limit": "memory"}
FINE = {"outcome": "completed"}


def messages(rule, *ends):
    """Return the message of each step; an end is its time and its fields."""
    state, found = None, []
    for at, fields in ends:
        state, message = rule.step(state, Ended(at=at, run="r", **fields))
        found.append(message)
    return found


def alerted(rule, *ends):
    return [bool(message) for message in messages(rule, *ends)]


class TestLimitsMet:
    rule = LimitsMet(count=3, within=60)

    def test_count_within_time(self):
        found = messages(self.rule, (0, MET), (1, MET), (2, FINE), (59, MET))
        assert found == ["", "", "", "a limit ended 3 runs within 60 s, the last one by memory"]

    def test_older_runs_do_not_count(self):
        assert not any(alerted(self.rule, (0, MET), (1, MET), (61, MET), (122, MET)))

    def test_count_begins_again_after_an_alert(self):
        assert alerted(self.rule, *[(number, MET) for number in range(6)]) == [False, False, True] * 2

    def test_clock_set_back_keeps_nothing_for_ever(self):
        assert not any(alerted(self.rule, (10**6, MET), (10**6, MET), (0, MET), (100, MET)))


class TestDeniedCalls:
    rule = DeniedCalls(count=10, within=60)

    def test_calls_of_several_runs_add_up(self):
        denied = {"denials": {"ptrace": 2, "mount": 3}}
        found = messages(self.rule, (0, denied), (1, FINE), (2, denied))
        assert found[-1] == "10 system calls and connections were refused within 60 s; in the last run mount, ptrace"

    def test_refused_connections_count(self):
        assert alerted(self.rule, (0, {"refused": 9}), (1, {"refused": 1})) == [False, True]

    def test_run_without_refusals_changes_nothing(self):
        assert self.rule.step(None, Ended(at=0, run="r", **FINE)) == (None, "")


class TestNewFailure:
    rule = NewFailure(after=2)

    def test_known_kind_is_no_news(self):
        ends = [(0, MET), (1, FINE), (2, MET), (3, {"outcome": "crashed", "signal": 11})]
        assert messages(self.rule, *ends)[-1] == "the first run that ended like this: crashed by signal 11"
        assert alerted(self.rule, *ends, ends[-1]) == [False, False, False, True, False]

    def test_first_runs_only_teach(self):
        assert alerted(self.rule, (0, MET), (1, {"outcome": "crashed", "signal": 9})) == [False, False]

    def test_exit_status_is_no_kind(self):
        assert not any(alerted(self.rule, (0, FINE), (1, FINE), (2, {"outcome": "failed"})))

    def test_errors_of_stockade_by_class(self):
        assert alerted(self.rule, (0, FINE), (1, FINE), (2, {"error": "JobError"})) == [False, False, True]

    def test_caller_that_leaves_is_no_failure(self):
        assert not any(alerted(self.rule, (0, FINE), (1, FINE), (2, {"error": "CancelledError"}), (3, {"error": ""})))

    def test_failed_sandbox_is_one_kind_with_its_error(self):
        failed = [{"error": error_class("the init is gone")}, {"outcome": "sandbox_failed"}]
        assert alerted(self.rule, (0, FINE), (1, FINE), *[(2, each) for each in failed])[2:] == [True, False]


class TestEscapeAttempt:
    rule = EscapeAttempt(distinct=3, quiet=60)

    @pytest.mark.parametrize(
        ("fields", "sign"),
        [
            ({"denials": {"ptrace": 1, "fork": 2}}, "the filter refused ptrace"),
            ({"denials": {"a": 1, "b": 1, "c": 1}}, "the filter refused 3 different system calls"),
            ({"refused_targets": ("169.254.169.254:80",)}, "the proxy refused connections to 169.254.169.254:80"),
            ({"refused_targets": ("[::1]:80",)}, "the proxy refused connections to [::1]:80"),
            ({"signal": 31}, "the filter killed the program"),
        ],
    )
    def test_sign(self, fields, sign):
        assert messages(self.rule, (0, fields)) == [sign]

    @pytest.mark.parametrize(
        "fields",
        [
            {"denials": {"a": 99, "b": 1}},
            {"refused_targets": ("example.org:443", "8.8.8.8:53", "")},
            {"signal": 9},
            MET,
        ],
    )
    def test_no_sign(self, fields):
        assert messages(self.rule, (0, fields)) == [""]

    def test_alert_is_not_repeated_at_once(self):
        sign = {"denials": {"ptrace": 1}}
        assert alerted(self.rule, (0, sign), (59, sign), (60, sign)) == [True, False, True]


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 1.5}, {"count": True}, {"within": -1}, {"within": "1h"}])
def test_bad_figure_is_refused(wrong):
    with pytest.raises(JobError, match=f"LimitsMet: {next(iter(wrong))}"):
        LimitsMet(**wrong)


class TestJudge:
    def test_labels_are_looked_at_apart(self):
        judge = Judge("user", [LimitsMet(count=2)])
        found = [judge.judge(Ended(0, user, {"user": user, "app": "a"}, **MET)) for user in ("ada", "eve", "ada")]
        (alert,) = found[2]
        assert found[:2] == [[], []]
        assert (alert.rule, alert.label, alert.run) == ("limits_met", "user=ada", "ada")
        assert str(alert).startswith("limits_met: user=ada: a limit ended 2 runs")

    def test_runs_without_the_label_are_looked_at_together(self):
        judge = Judge("user", [LimitsMet(count=2)])
        assert judge.judge(Ended(0, "a", {"app": "x"}, **MET)) == []
        assert [each.label for each in judge.judge(Ended(0, "b", {"app": "y"}, **MET))] == [""]

    def test_memory_is_bounded(self):
        judge = Judge("user", RULES)
        for number in range(3 * MOST_VALUES):
            judge.judge(Ended(0, "r", {"user": f"u{number}"}, **MET))
        assert len(judge._states) == MOST_VALUES

    @pytest.mark.parametrize("wrong", [LimitsMet, "limits", None])
    def test_bad_rule_is_refused(self, wrong):
        with pytest.raises(JobError, match="expected a rule"):
            Judge("user", [wrong])


ENDS = st.builds(
    Ended,
    at=st.floats(0, 1e5),
    run=st.just("r"),
    outcome=st.sampled_from(["completed", "limit_exceeded", "crashed", ""]),
    limit=st.sampled_from(["memory", "cpu_time"]),
    signal=st.integers(0, 64),
    denials=st.dictionaries(st.sampled_from(["ptrace", "read", "open"]), st.integers(1, 30)),
    refused=st.integers(0, 5),
)


@given(st.lists(ENDS, max_size=60))
def test_states_stay_small(ends):
    for rule in (DeniedCalls(count=20), LimitsMet(count=5), NewFailure(after=3), EscapeAttempt()):
        state = None
        for ended in ends:
            state, _ = rule.step(state, ended)
            hash(state)  # immutable
            assert not isinstance(state, tuple) or len(state) < 20


class TestRecords:
    def test_fields_of_another_type_count_as_missing(self):
        record = {
            "run": 5, "labels": ["x"], "outcome": {}, "limit": 1, "signal": "9", "message": 3, "denials": "x",
            "network_refused": -1, "network_refusals": 7,
        }  # fmt: skip
        assert Ended.of(record, 1.0) == Ended(at=1.0, run="")
        assert Ended.of({"denials": {"ptrace": "many"}, "labels": {"user": 1}}, 0).denials == {"ptrace": 0}

    def test_class_of_an_error(self):
        assert error_class("PlanError: memory = 1: too small") == "PlanError"
        assert error_class("the caller left before the verdict") == ""
        assert error_class("the first process of the sandbox is gone") == "sandbox_failed"
