"""A policy validates itself, and survives pickle, copy and JSON."""

import copy
import json
import math
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade import Guarantee, Policy, PolicyError, Strength
from stockade.policy.guarantees import LIMITS
from stockade.policy.profiles import DEFAULT_LIMITS

NONSENSE = [-1, "", "123bogus", 2**70, math.nan, True, None, []]


def problems(**fields):
    with pytest.raises(PolicyError) as caught:
        Policy(**fields)
    return {problem.field: problem for problem in caught.value.problems}


@pytest.mark.parametrize("limit", [limit.value for limit in LIMITS])
@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_nonsense_in_a_limit_names_field_value_and_reason(limit, value):
    problem = problems(limits={limit: value})[f"limits.{limit}"]
    assert problem.value == repr(value)
    assert problem.reason


def test_every_mistake_is_reported_at_once():
    found = problems(limits={"memory": -1, "wall_time": ""}, filesystem={"write": ["/"]}, network="all", colour="blue")
    assert set(found) == {"limits.memory", "limits.wall_time", "filesystem.write.0", "network", "colour"}


@pytest.mark.parametrize(
    "path", ["/", "..", "../secret", "a/../../b", "/srv/../etc", "", "x\0y", "/proc/self", "/dev/null", "/sys", "/job"]
)
@pytest.mark.parametrize("place", ["read", "write"])
def test_paths_that_are_too_broad_or_lead_out_are_refused(place, path):
    assert f"filesystem.{place}.0" in problems(filesystem={place: [path]})


def test_a_lone_path_is_no_list():
    assert "filesystem.read" in problems(filesystem={"read": "/srv"})


def test_paths_become_absolute():
    policy = Policy(filesystem={"read": ["./data", Path("/srv/x/"), "a/../b"]})
    assert policy.filesystem.read == (str(Path.cwd() / "data"), "/srv/x", str(Path.cwd() / "b"))


def test_unset_means_the_default_profile():
    limits = Policy(limits={"memory": "64MiB"}).limits
    assert limits.memory == 64 << 20
    for name, figure in DEFAULT_LIMITS.items():
        if name != "memory":
            assert limits.figure(Guarantee(name)) == figure


def test_the_default_profile_says_what_it_promises():
    limits = Policy().limits
    assert (limits.memory, limits.swap, limits.cpu_time, limits.wall_time) == (256 << 20, 0, 30, 60)
    assert (limits.processes, limits.open_files, limits.output, limits.disk) == (10, 256, 64 << 10, 64 << 20)


def test_unlimited_lifts_and_only_that():
    policy = Policy(limits={"memory": "unlimited"})
    assert not policy.asks(Guarantee.MEMORY)
    assert policy.asks(Guarantee.PROCESSES)


def test_two_slashes_in_front_are_one():
    files = Policy(filesystem={"read": ["//srv/x"], "write": ["///srv//y"], "workspace": "//srv/x"}).filesystem
    assert (files.read, files.write, files.workspace) == (("/srv/x",), ("/srv/y",), "/srv/x")
    assert Policy(security={"syscalls_file": "//etc/f.json"}).security.syscalls_file == "/etc/f.json"


@pytest.mark.parametrize("path", ["//", "//proc", "//dev/null", "//job/x"])
def test_two_slashes_in_front_hide_nothing(path):
    assert problems(filesystem={"read": [path]})


def test_an_empty_list_means_nothing():
    policy = Policy(filesystem={"read": [], "write": []}, environment={"inherit": [], "set": {}}, accept={})
    assert policy == Policy()
    assert policy.filesystem.read == () and policy.environment.inherit == ()


def test_accept_lowers_a_floor_and_can_raise_the_default_one():
    assert Policy().floor(Guarantee.MEMORY) is Strength.SUPERVISOR
    assert Policy(accept={"memory": "kernel"}).floor(Guarantee.MEMORY) is Strength.KERNEL
    assert Policy(accept={"disk": "absent"}).floor(Guarantee.DISK) is Strength.ABSENT
    assert Policy().floor(Guarantee.NETWORK) is Strength.KERNEL


@pytest.mark.parametrize("accept", [{"memry": "kernel"}, {"memory": "iron"}, ["memory"], {"memory": None}])
def test_accept_knows_its_words(accept):
    assert any(field.startswith("accept") for field in problems(accept=accept))


@pytest.mark.parametrize(
    "security",
    [{"capabilities": ["CAP_SYS_ADMIN"]}, {"no_new_privileges": False}, {"host_uid": 0}, {"uid": -1}, {"uid": "0"}],
)
def test_what_would_undo_a_sandbox_is_refused(security):
    assert problems(security=security)


def test_a_policy_is_frozen_all_the_way_down():
    policy = Policy(environment={"set": {"A": "1"}}, accept={"memory": "kernel"})
    with pytest.raises(Exception, match="frozen"):
        policy.network = "host"
    with pytest.raises(TypeError, match="frozen"):
        policy.environment.set["B"] = "2"
    with pytest.raises(TypeError, match="frozen"):
        policy.accept.clear()


def test_pickle_copy_and_json_give_the_same_policy():
    policy = Policy(
        limits={"memory": "64MiB", "cpu_rate": 0.5}, environment={"set": {"A": "1"}}, accept={"swap": "absent"}
    )
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert copy.deepcopy(policy) == policy
    assert Policy.parse(json.loads(policy.model_dump_json())) == policy


def test_files(tmp_path):
    toml = tmp_path / "p.toml"
    toml.write_text('network = "none"\n[limits]\nmemory = "64MiB"\nwall_time = 2\n[accept]\nsyscalls = "absent"\n')
    same = tmp_path / "p.json"
    same.write_text('{"limits": {"memory": 67108864, "wall_time": "2s"}, "accept": {"syscalls": "absent"}}')
    assert Policy.load(toml) == Policy.load(same)
    for text in ("[limits", "limits = 3"):
        toml.write_text(text)
        with pytest.raises(PolicyError):
            Policy.load(toml)
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.load(tmp_path / "absent.toml")


def test_the_schema_describes_every_field():
    schema = Policy.model_json_schema()
    parts = [schema, *schema["$defs"].values()]
    for part in parts:
        for name, field in part.get("properties", {}).items():
            assert field.get("description"), name


@given(st.dictionaries(st.sampled_from([limit.value for limit in LIMITS]), st.integers(-(2**80), 2**80)))
def test_any_table_of_integers_is_a_policy_or_a_policy_error(limits):
    try:
        policy = Policy(limits=limits)
    except PolicyError as error:
        assert {problem.field.removeprefix("limits.") for problem in error.problems} <= set(limits)
    else:
        assert all(getattr(policy.limits, name) == value for name, value in limits.items())
