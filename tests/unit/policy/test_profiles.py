"""The profiles have exactly these figures."""

import os

import pytest

from stockade import Guarantee, Policy, PolicyError, Strength
from stockade.policy.profiles import DEFAULT_ACCEPT, DEFAULT_LIMITS, PROFILES

UNLIMITED = "unlimited"
KIB, MIB, GIB = 2**10, 2**20, 2**30
S = (30.0, UNLIMITED)  # cpu_time and cpu_rate of the default profile


@pytest.mark.parametrize(
    ("name", "memory", "cpu", "wall", "processes", "files", "operations", "network", "isolation", "on_output", "output"),
    [
        ("default", 256 * MIB, S, 60, 10, 256, UNLIMITED, "none", None, "truncate", 64 * KIB),
        ("strict", 64 * MIB, (5, UNLIMITED), 10, 1, 64, UNLIMITED, "none", "namespaces", "kill", 64 * KIB),
        ("conservative", 128 * MIB, (30, 0.5), 5, 5, 100, 10_000, "none", "namespaces", "kill", 64 * KIB),
        ("moderate", 256 * MIB, (30, 1), 30, 10, 200, 50_000, "none", "namespaces", "truncate", MIB),
        ("generous", 512 * MIB, (30, 2), 60, 20, 500, 100_000, "host", None, "truncate", MIB),
        ("dev", GIB, (UNLIMITED, UNLIMITED), 300, 256, 1024, UNLIMITED, "host", None, "truncate", 16 * MIB),
        ("build", 2 * GIB, (UNLIMITED, UNLIMITED), 300, 256, 1024, UNLIMITED, "none", None, "truncate", 16 * MIB),
        ("test", GIB, (UNLIMITED, UNLIMITED), 600, 256, 1024, UNLIMITED, "none", None, "truncate", 16 * MIB),
    ],
)  # fmt: skip
def test_profile_has_documented_figures(
    name, memory, cpu, wall, processes, files, operations, network, isolation, on_output, output
):
    policy = Policy.profile(name)
    limits = policy.limits
    assert (limits.memory, (limits.cpu_time, limits.cpu_rate), limits.wall_time) == (memory, cpu, wall)
    assert (limits.processes, limits.open_files, limits.operations, limits.output) == (
        processes,
        files,
        operations,
        output,
    )
    # An unset isolation is at least a process. The explicit word would also make a process enough for untrusted code.
    assert (policy.network, policy.isolation, policy.on_output) == (network, isolation, on_output)
    in_columns = {"memory", "cpu_time", "cpu_rate", "wall_time", "processes", "open_files", "operations", "output"}
    for limit in DEFAULT_LIMITS.keys() - in_columns:
        own = PROFILES[name].fields.get("limits", {}).get(limit)
        assert getattr(limits, limit) == (512 * MIB if own == "512MiB" else DEFAULT_LIMITS[limit])


@pytest.mark.parametrize(
    ("name", "access", "bound", "protected"),
    [
        ("default", None, False, ()), ("strict", "read", False, ()), ("conservative", "read", False, ()),
        ("moderate", None, False, ()), ("generous", None, False, ()),
        ("dev", "write", True, (".git/hooks", ".git/config")), ("build", "write", True, (".git",)),
        ("test", "overlay", True, (".git",)),
    ],
)  # fmt: skip
def test_profile_has_documented_access(name, access, bound, protected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = Policy.profile(name).filesystem
    assert (files.access, files.protected, files.read, files.write) == (access, protected, (), ())
    assert files.workspace == (os.fspath(tmp_path) if bound else "empty")
    assert Policy.profile(name).security.read_only_root


def test_profiles_are_exactly_the_documented():
    assert list(PROFILES) == ["default", "strict", "conservative", "moderate", "generous", "dev", "build", "test"]


def test_profile_build_takes_the_current_folder(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert Policy.profile("build").filesystem.workspace == os.fspath(tmp_path / name)
    monkeypatch.chdir("/")
    with pytest.raises(PolicyError, match="whole root"):
        Policy.profile("build")


@pytest.mark.parametrize("name", PROFILES)
def test_profile_accepted_guarantee_has_a_note(name):
    profile = PROFILES[name]
    for guarantee in {*profile.fields.get("accept", {}), *DEFAULT_ACCEPT}:
        assert profile.notes[f"limits.{guarantee}"]
    assert {Guarantee(each) for each in profile.fields.get("accept", {})} == set(Policy.profile(name).accept)
    assert ("isolation" in profile.notes) == ("isolation" in profile.fields)


def test_profile_default_equals_unset_policy():
    assert Policy.profile("default") == Policy() == Policy.named(None) == Policy.named("default")


def test_profile_with_fields_overrides_only_them():
    policy = Policy.profile("strict", limits={"memory": "128MiB"}, accept={"swap": "kernel"})
    assert (policy.limits.memory, policy.limits.processes) == (128 * MIB, 1)
    assert policy.accept == {Guarantee.SWAP: Strength.KERNEL}
    generous = Policy.profile("generous", accept={"disk": "absent"})
    assert set(generous.accept) == {Guarantee.CPU_RATE, Guarantee.DISK}


def test_profile_none_inherits_unlimited_lifts():
    assert Policy.profile("strict", isolation=None, filesystem={"access": None}) == Policy.profile("strict")
    assert Policy.profile("strict", limits={"memory": UNLIMITED}).limits.memory == UNLIMITED
    with pytest.raises(PolicyError, match=r"limits.memory"):
        Policy.profile("strict", limits={"memory": None})


def test_profile_part_object_overrides_set_fields():
    built = Policy(limits={"wall_time": 3}).limits
    assert Policy.profile("strict", limits=built) == Policy.profile("strict", limits={"wall_time": 3})


def test_profile_unknown_name_suggests_another():
    with pytest.raises(PolicyError, match="there is no such profile; did you mean 'strict'"):
        Policy.profile("strct")
    with pytest.raises(PolicyError, match="there are: default, strict, "):
        Policy.named("zzz")
    with pytest.raises(PolicyError, match=r"'/etc/policy.toml': a text names a profile; Policy.load reads a file"):
        Policy.named("/etc/policy.toml")
    with pytest.raises(PolicyError, match="expected a Policy, its fields as a mapping, or a profile's name"):
        Policy.named(["strict"])


def test_policy_named_takes_fields_as_a_mapping():
    assert Policy.named({"limits": {"wall_time": 3}}) == Policy(limits={"wall_time": 3})
