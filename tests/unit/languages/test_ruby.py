"""The command that Ruby source becomes. The interpreter is made up: Ruby 3.2 or newer was not tried."""

from __future__ import annotations

import pytest

from stockade.backends.native.capabilities import capabilities
from stockade.core.errors import JobError
from stockade.languages import ruby
from stockade.languages.base import Interpreter
from stockade.planning.plan import plan
from stockade.policy.model import Policy
from stockade.runs.job import Job
from tests.unit.facts import ROOT_V1

JOB = Job(source=b"1", language="ruby", interpreter="/usr/bin/ruby", warm=False)


def seconds(policy: Policy, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...]) -> str:
    """Return the word of the agent's command line for ``Regexp.timeout``."""
    found = Interpreter("/usr/bin/ruby", version, ())
    monkeypatch.setattr(ruby, "_found", lambda _: (found, "3.2.0", version >= (3, 2), ""))
    made = plan(policy, ROOT_V1, "native", capabilities(ROOT_V1))
    return ruby.Ruby().command(JOB, made).argv[3]


@pytest.mark.parametrize(
    ("profile", "expected"),
    [("default", "0"), ("strict", "1"), ("conservative", "1"), ("moderate", "1"), ("generous", "10"), ("dev", "10"),
     ("build", "10"), ("test", "10")],
)  # fmt: skip
def test_profile_bounds_matches_where_ruby_can(profile: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Policy.profile(profile)
    assert seconds(policy, monkeypatch, (3, 2, 1)) == expected
    assert seconds(policy, monkeypatch, (3, 1, 2)) == "0"


def test_regexp_timeout_on_older_ruby_needs_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobError, match=r"3\.1\.2 and has no Regexp\.timeout.*'older_ruby': 'run'"):
        seconds(Policy(languages={"regexp_timeout": 2}), monkeypatch, (3, 1, 2))
    assert seconds(Policy(languages={"regexp_timeout": 2, "older_ruby": "run"}), monkeypatch, (3, 2)) == "2"
