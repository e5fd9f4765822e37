"""The receipt and the usage of a result, and the policies that a plan refuses."""

from __future__ import annotations

import json
import time

import pytest

import stockade
from stockade import Guarantee, Isolation, Outcome, Strength
from stockade.backends import registry
from stockade.testing.base import Expectations


class ReceiptsContract(Expectations):
    """The receipt names the mechanism of each guarantee, and agrees with the plan."""

    def test_result_carries_backend_and_plan(self) -> None:
        plan = stockade.plan(self.policy(), backend=self.backend)
        result = self.run_command(["true"])
        assert result.backend == plan.backend == registry.find(self.backend).name
        assert dict(result.enforcement) == dict(plan.enforcement)
        json.dumps(result.as_json(), allow_nan=False)

    def test_every_guarantee_has_mechanism_or_reason(self) -> None:
        for guarantee, held in stockade.plan(self.policy(), backend=self.backend).enforcement.items():
            assert isinstance(guarantee, Guarantee)
            assert held.mechanism
            assert held.strength is not Strength.ABSENT or held.note

    def test_guarantee_not_held_refuses_the_policy(self) -> None:
        weak = {Guarantee(name) for name in self.accept}
        if not weak:
            return
        with pytest.raises(stockade.PlanError) as caught:
            stockade.plan(stockade.Policy(), backend=self.backend)
        assert set(map(Guarantee, caught.value.missing)) == weak

    def test_isolation_is_at_least_a_process(self) -> None:
        assert registry.find(self.backend).isolation is not Isolation.INTERPRETER

    def test_traits_match_expectations(self) -> None:
        traits = registry.find(self.backend).traits
        assert traits.keeps_workspaces is self.keeps_workspaces
        assert traits.keeps_capabilities is self.keeps_capabilities

    def test_denied_calls_are_named_on_request(self) -> None:
        policy = {"security": {"explain_denials": True}}
        if not self.explains_denials:
            with pytest.raises((stockade.JobError, stockade.PlanError), match="explain_denials"):
                self.run_command(["true"], policy=policy)
            return
        result = self.run_command(["unshare", "-U", "true"], policy=policy)
        assert "unshare" in {denial.call for denial in result.denials}

    def test_capability_is_kept_or_refused_by_name(self) -> None:
        policy = {"security": {"capabilities": ["CAP_NET_BIND_SERVICE"]}}
        if not self.keeps_capabilities:
            with pytest.raises(stockade.PlanError, match="CAP_NET_BIND_SERVICE cannot be kept"):
                self.run_source("1", policy=policy)
            return
        code = "import socket\nsocket.socket().bind(('127.0.0.1', 80))"
        assert self.run_source(code).outcome is Outcome.FAILED
        result = self.run_source(code, policy=policy)
        assert result.ok
        assert "CAP_NET_BIND_SERVICE" in result.enforcement[Guarantee.PRIVILEGES].note

    def test_capability_on_host_network_is_refused(self) -> None:
        policy = {
            "security": {"capabilities": ["CAP_NET_BIND_SERVICE"]},
            "network": "host",
            "accept": {"ipc": "absent"},
        }
        with pytest.raises(stockade.PlanError, match="the ports would be the host's"):
            self.run_source("1", policy=policy)

    def test_usage_of_a_command_is_counted(self) -> None:
        result = self.run_command(["/bin/sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo $i"])
        assert result.stdout == "50000\n"
        assert 0 < result.usage.cpu_seconds < 30
        assert 0 < result.usage.wall_seconds < 30
        assert result.usage.output == 6
        assert result.usage.processes in (1, None)

    def test_wall_time_used_covers_whole_program(self) -> None:
        """The wall clock counts from the start of the program, even if the warden learns of the start later."""
        for number in range(6):
            asked = time.monotonic()
            result = self.run_source(f"import time\ntime.sleep(0.01)  # {number}")
            assert 0.01 <= result.usage.wall_seconds <= time.monotonic() - asked
