"""A profile's name and a ceiling work wherever a policy is accepted."""

import asyncio

import pytest

import stockade
from stockade import Policy, PolicyError

CEILING = {"limits": {"memory": "96MiB", "wall_time": 20}}


def test_profile_name_and_ceiling_work_everywhere():
    def bounded(policy):
        return (policy.limits.memory, policy.limits.wall_time, policy.limits.processes) == (96 << 20, 20, 10)

    assert stockade.run("print(1)", policy="default", ceiling=CEILING).ok
    assert stockade.run_command(["true"], policy="default", ceiling=CEILING).ok
    assert bounded(stockade.select("default", ceiling=CEILING).plan.policy)
    assert bounded(stockade.select("default", ceiling=CEILING, backend="native").plan.policy)
    assert bounded(stockade.plan("default", ceiling=CEILING).policy)
    with stockade.Runner("default", ceiling=CEILING) as box:
        assert bounded(box.policy)
        assert box.run("print(1)").ok

    async def main():
        async with stockade.AsyncRunner("default", ceiling=CEILING) as box:
            return await box.run("print(1)")

    assert asyncio.run(main()).ok


def test_ceiling_limit_ends_run_under_policy():
    policy = Policy(limits={"wall_time": 30})
    result = stockade.run("import time; time.sleep(5)", policy=policy, ceiling={"limits": {"wall_time": 0.5}})
    assert (result.outcome, result.limit) == ("limit_exceeded", "wall_time")
    assert stockade.run("import time; time.sleep(1)", policy=policy).ok


@pytest.mark.parametrize("call", [stockade.run, stockade.Runner, stockade.plan, stockade.select])
def test_invalid_policy_argument_is_refused(call):
    first = ("1",) if call is stockade.run else ()
    for policy in ("strct", "policy.toml", ["strict"]):
        with pytest.raises(PolicyError, match=r"policy|profile"):
            call(*first, policy=policy)
    with pytest.raises(PolicyError, match="no such field"):
        call(*first, ceiling={"limit": {}})


def test_ceiling_does_not_ease_untrusted_code():
    with pytest.raises(stockade.BackendUnavailable):
        stockade.select(trust="untrusted")
    with pytest.raises(stockade.BackendUnavailable):
        stockade.select(trust="untrusted", ceiling=Policy(isolation="namespaces"))
    assert stockade.select("strict", trust="untrusted").backend
