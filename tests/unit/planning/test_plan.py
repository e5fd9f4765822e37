"""A plan holds every requested guarantee strongly enough, or is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade import Enforcement, Guarantee, Isolation, PlanError, Policy, Strength
from stockade.backends.native.backend import Native
from stockade.backends.native.capabilities import capabilities
from stockade.planning.plan import plan, plan_for_job
from tests.unit import facts as hosts

HOSTS = [hosts.ROOT_V1, hosts.ROOT_V2, hosts.USER, hosts.OLD_USER]


def made(policy, facts):
    return plan(policy, facts, "native", capabilities(facts))


def test_plan_same_policy_and_host_is_shared():
    policy = Policy()
    first = made(policy, hosts.ROOT_V1)
    assert made(policy, hosts.ROOT_V1) is first
    assert Policy.named(None) is Policy.named(None)
    held = capabilities(hosts.ROOT_V1)
    weaker = {**held, Guarantee.MEMORY: Enforcement("a sample", Strength.SUPERVISOR, "")}
    others = [
        made(Policy(), hosts.ROOT_V1),
        made(policy, replace(hosts.ROOT_V1)),
        made(policy, hosts.USER),
        plan(policy, hosts.ROOT_V1, "other", held),
        plan(policy, hosts.ROOT_V1, "native", weaker),
        plan(policy, hosts.ROOT_V1, "native", held, own_filter=b"{}"),
        plan(policy, hosts.ROOT_V1, "native", held, isolation=Isolation.PROCESS),
    ]
    assert len({id(each) for each in (first, *others)}) == 8
    assert others[4].enforcement[Guarantee.MEMORY].mechanism == "a sample"


def test_plan_cache_drops_old_plans():
    policy = Policy()
    first = made(policy, hosts.ROOT_V1)
    for _ in range(8):
        made(Policy(), hosts.ROOT_V1)
    assert made(policy, hosts.ROOT_V1) is not first


@pytest.mark.parametrize("facts", HOSTS)
def test_plan_default_policy_covers_all_guarantees(facts):
    assert set(made(Policy(), facts).enforcement) == set(Guarantee)


def test_plan_weak_guarantees_raise_plan_error():
    policy = Policy(accept={"memory": "kernel"}, limits={"cpu_rate": 0.5})
    with pytest.raises(PlanError) as caught:
        made(policy, replace(hosts.USER, seccomp=False))
    assert set(caught.value.missing) == {"memory", "cpu_rate", "syscalls"}
    assert "Permission denied" in caught.value.missing["memory"]
    assert "accept={'memory': 'supervisor'}" in caught.value.missing["memory"]
    assert "limits={'cpu_rate': 'unlimited'}" in caught.value.missing["cpu_rate"]
    assert caught.value.as_json()["missing"] == caught.value.missing


def test_plan_accepted_absence_is_allowed():
    accepted = made(Policy(limits={"cpu_rate": 0.5}, accept={"cpu_rate": "absent"}), hosts.USER)
    assert accepted.enforcement[Guarantee.CPU_RATE].strength is Strength.ABSENT


def test_plan_writable_folder_drops_disk_guarantee():
    policy = Policy(filesystem={"write": ["/srv/out"]})
    with pytest.raises(PlanError, match="/srv/out"):
        made(policy, hosts.ROOT_V1)
    accepted = Policy(filesystem={"write": ["/srv/out"]}, accept={"disk": "absent"})
    assert made(accepted, hosts.ROOT_V1).enforcement[Guarantee.DISK].strength is Strength.ABSENT


def test_plan_host_network_is_not_isolated():
    receipt = made(Policy(network="host"), hosts.ROOT_V1).enforcement
    assert receipt[Guarantee.NETWORK].strength is Strength.ABSENT
    assert "metadata" in receipt[Guarantee.NETWORK].note
    assert "abstract" in receipt[Guarantee.IPC].note


def test_plan_bounded_network_is_held_by_its_proxy():
    policy = Policy(network={"allow": ["a.org:443"]})
    held = plan(policy, hosts.ROOT_V1, "native", capabilities(hosts.ROOT_V1), bounds_network=True)
    assert held.enforcement[Guarantee.NETWORK].mechanism == "network namespace, proxy"
    assert held.enforcement[Guarantee.NETWORK].strength is Strength.SUPERVISOR
    assert "lets through a.org:443" in held.enforcement[Guarantee.NETWORK].note


@pytest.mark.parametrize("accept", [{}, {"network": "absent"}])
@pytest.mark.parametrize(
    ("fields", "bounds", "reason"),
    [({}, False, "cannot bound a network"), ({"security": {"syscalls": "tight"}}, True, "refuses every socket")],
)
def test_plan_bounded_network_is_refused_where_nothing_bounds_it(accept, fields, bounds, reason):
    policy = Policy(network={"allow": ["a.org:443"]}, accept=accept, **fields)
    with pytest.raises(PlanError) as caught:
        plan(policy, hosts.ROOT_V1, "x", capabilities(hosts.ROOT_V1), bounds_network=bounds)
    assert reason in caught.value.missing["network"]


def test_plan_bounded_network_may_be_required_of_the_kernel():
    policy = Policy(network={"allow": ["a.org:443"]}, accept={"network": "kernel"})
    with pytest.raises(PlanError, match="supervisor only"):
        plan(policy, hosts.ROOT_V1, "native", capabilities(hosts.ROOT_V1), bounds_network=True)


def test_availability_no_namespaces_names_remedy():
    available = Native().availability(hosts.NOTHING)
    assert not available.usable
    assert "Operation not permitted" in available.reason
    assert "sysctl" in available.remedy


def test_capabilities_old_kernel_notes_other_tasks():
    assert "5.14" in capabilities(hosts.OLD_USER)[Guarantee.PROCESSES].note
    assert "5.14" not in capabilities(hosts.USER)[Guarantee.PROCESSES].note


strengths = st.sampled_from(list(Strength))
receipts = st.fixed_dictionaries(
    {guarantee: st.builds(Enforcement, st.just("x"), strengths) for guarantee in Guarantee}
)
floors = st.dictionaries(st.sampled_from(list(Guarantee)), strengths)


@given(receipts, floors)
def test_plan_never_holds_less_than_its_floor(receipt, accept):
    policy = Policy(accept=accept)
    try:
        found = plan(policy, hosts.ROOT_V1, "x", receipt)
    except PlanError as error:
        assert error.missing
        for name in error.missing:
            assert not receipt[Guarantee(name)].strength.holds(policy.floor(Guarantee(name)))
    else:
        for guarantee in Guarantee:
            assert not policy.asks(guarantee) or found.enforcement[guarantee].strength.holds(policy.floor(guarantee))


@given(receipts, floors, st.sampled_from(list(Guarantee)), strengths)
def test_plan_lower_floor_never_refuses(receipt, accept, guarantee, strength):
    try:
        strict = plan(Policy(accept=accept), hosts.ROOT_V1, "x", receipt)
    except PlanError:
        return
    if Policy(accept=accept).floor(guarantee).holds(strength):
        looser = plan(Policy(accept=accept | {guarantee: strength}), hosts.ROOT_V1, "x", receipt)
        assert looser.enforcement == strict.enforcement


@pytest.mark.parametrize(
    ("abi", "left"),
    [
        (0, "the mounts have no Landlock behind them"),
        (1, "truncate()"),
        (2, "truncate()"),
        (3, "TCP connections"),
        (4, "ioctl()"),
        (5, "abstract unix sockets"),
    ],
)
def test_receipt_old_landlock_names_its_gaps(abi, left):
    receipt = capabilities(replace(hosts.USER, landlock=abi))
    assert left in receipt[Guarantee.FILESYSTEM_WRITE].note
    assert "a guest can reach its abstract sockets" in receipt[Guarantee.IPC].note


@pytest.mark.parametrize("abi", [6, 7])
def test_receipt_landlock_with_scopes_has_no_gaps(abi):
    receipt = capabilities(replace(hosts.USER, landlock=abi))
    assert receipt[Guarantee.FILESYSTEM_WRITE].note == receipt[Guarantee.IPC].note == ""


def test_operations_without_agent_are_refused():
    policy = Policy(limits={"operations": 10})
    planned = made(policy, hosts.ROOT_V1)
    assert planned.enforcement[Guarantee.OPERATIONS].strength is Strength.COOPERATIVE
    assert plan_for_job(planned, "python source", counts=True) is planned
    with pytest.raises(PlanError) as caught:
        plan_for_job(planned, "a command", counts=False)
    assert set(caught.value.missing) == {"operations"}
    for way in ("accept={'operations': 'absent'}", "limits={'operations': 'unlimited'}", "a command"):
        assert way in caught.value.missing["operations"]


def test_operations_accepted_absent_have_a_reason():
    planned = made(Policy(limits={"operations": 10}, accept={"operations": "absent"}), hosts.ROOT_V1)
    without = plan_for_job(planned, "shell source", counts=False)
    assert without.enforcement[Guarantee.OPERATIONS].strength is Strength.ABSENT
    assert "shell source" in without.enforcement[Guarantee.OPERATIONS].note
    assert plan_for_job(planned, "shell source", counts=False) is without  # the result is cached
    unasked = made(Policy(), hosts.ROOT_V1)
    assert plan_for_job(unasked, "a command", counts=False) is unasked


def test_operations_stronger_floor_is_refused():
    with pytest.raises(PlanError, match="operations"):
        made(Policy(limits={"operations": 10}, accept={"operations": "supervisor"}), hosts.ROOT_V1)
