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
def test_policy_invalid_limit_names_field_and_value(limit, value):
    problem = problems(limits={limit: value})[f"limits.{limit}"]
    assert problem.value == repr(value)
    assert problem.reason


def test_policy_mistakes_are_reported_at_once():
    found = problems(limits={"memory": -1, "wall_time": ""}, filesystem={"write": ["/"]}, network="all", colour="blue")
    assert set(found) == {"limits.memory", "limits.wall_time", "filesystem.write.0", "network", "colour"}


@pytest.mark.parametrize(
    "path", ["/", "..", "../secret", "a/../../b", "/srv/../etc", "", "x\0y", "/proc/self", "/dev/null", "/sys", "/job"]
)
@pytest.mark.parametrize("place", ["read", "write"])
def test_policy_broad_or_outside_path_is_refused(place, path):
    assert f"filesystem.{place}.0" in problems(filesystem={place: [path]})


def test_policy_single_path_is_not_a_list():
    assert "filesystem.read" in problems(filesystem={"read": "/srv"})


def test_policy_paths_become_absolute():
    policy = Policy(filesystem={"read": ["./data", Path("/srv/x/"), "a/../b"]})
    assert policy.filesystem.read == (str(Path.cwd() / "data"), "/srv/x", str(Path.cwd() / "b"))


def test_policy_unset_limit_is_default_profiles():
    limits = Policy(limits={"memory": "64MiB"}).limits
    assert limits.memory == 64 << 20
    for name, figure in DEFAULT_LIMITS.items():
        if name != "memory":
            assert limits.figure(Guarantee(name)) == figure


def test_policy_default_has_documented_figures():
    limits = Policy().limits
    assert (limits.memory, limits.swap, limits.cpu_time, limits.wall_time) == (256 << 20, 0, 30, 60)
    assert (limits.processes, limits.open_files, limits.output, limits.disk) == (10, 256, 64 << 10, 64 << 20)


def test_policy_unlimited_lifts_one_limit():
    policy = Policy(limits={"memory": "unlimited"})
    assert not policy.asks(Guarantee.MEMORY)
    assert policy.asks(Guarantee.PROCESSES)


def test_policy_double_slash_becomes_single():
    files = Policy(filesystem={"read": ["//srv/x"], "write": ["///srv//y"], "workspace": "//srv/x"}).filesystem
    assert (files.read, files.write, files.workspace) == (("/srv/x",), ("/srv/y",), "/srv/x")
    assert Policy(security={"syscalls_file": "//etc/f.json"}).security.syscalls_file == "/etc/f.json"


@pytest.mark.parametrize("path", ["//", "//proc", "//dev/null", "//job/x"])
def test_policy_double_slash_hides_no_reserved_path(path):
    assert problems(filesystem={"read": [path]})


def test_policy_empty_list_means_nothing():
    policy = Policy(filesystem={"read": [], "write": []}, environment={"inherit": [], "set": {}}, accept={})
    assert policy == Policy()
    assert policy.filesystem.read == () and policy.environment.inherit == ()


def test_accept_lowers_and_raises_floors():
    assert Policy().floor(Guarantee.MEMORY) is Strength.SUPERVISOR
    assert Policy(accept={"memory": "kernel"}).floor(Guarantee.MEMORY) is Strength.KERNEL
    assert Policy(accept={"disk": "absent"}).floor(Guarantee.DISK) is Strength.ABSENT
    assert Policy().floor(Guarantee.NETWORK) is Strength.KERNEL


@pytest.mark.parametrize("accept", [{"memry": "kernel"}, {"memory": "iron"}, ["memory"], {"memory": None}])
def test_accept_unknown_word_is_refused(accept):
    assert any(field.startswith("accept") for field in problems(accept=accept))


@pytest.mark.parametrize(
    "security",
    [{"capabilities": ["CAP_SYS_ADMIN"]}, {"no_new_privileges": False}, {"host_uid": 0}, {"uid": -1}, {"uid": "0"}],
)
def test_policy_unsafe_security_is_refused(security):
    assert problems(security=security)


def test_policy_nested_values_are_frozen():
    policy = Policy(environment={"set": {"A": "1"}}, accept={"memory": "kernel"})
    with pytest.raises(Exception, match="frozen"):
        policy.network = "host"
    with pytest.raises(TypeError, match="frozen"):
        policy.environment.set["B"] = "2"
    with pytest.raises(TypeError, match="frozen"):
        policy.accept.clear()


def test_policy_round_trips_pickle_and_json():
    policy = Policy(
        limits={"memory": "64MiB", "cpu_rate": 0.5}, environment={"set": {"A": "1"}}, accept={"swap": "absent"}
    )
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert copy.deepcopy(policy) == policy
    assert Policy.parse(json.loads(policy.model_dump_json())) == policy


def test_policy_load_reads_toml_and_json(tmp_path):
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


def test_policy_schema_describes_every_field():
    schema = Policy.model_json_schema()
    parts = [schema, *schema["$defs"].values()]
    for part in parts:
        for name, field in part.get("properties", {}).items():
            assert field.get("description"), name


@given(st.dictionaries(st.sampled_from([limit.value for limit in LIMITS]), st.integers(-(2**80), 2**80)))
def test_policy_any_integers_give_policy_or_error(limits):
    try:
        policy = Policy(limits=limits)
    except PolicyError as error:
        assert {problem.field.removeprefix("limits.") for problem in error.problems} <= set(limits)
    else:
        assert all(getattr(policy.limits, name) == value for name, value in limits.items())
