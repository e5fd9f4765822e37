"""Mistakes that merging reports. ``tests/property`` checks that merging is correct."""

from pathlib import Path

import pytest

from stockade import Policy, PolicyError, resolve


def problems(**sources):
    with pytest.raises(PolicyError) as caught:
        resolve(**{"variables": {}, **sources})
    return [str(each) for each in caught.value.problems]


def test_resolve_later_source_wins(tmp_path):
    file = tmp_path / "p.json"
    file.write_text('{"limits": {"memory": "1GiB", "processes": 3, "wall_time": 9}}')
    found = resolve(
        profile="strict", file=file, variables={"STOCKADE_LIMIT_PROCESSES": "4", "STOCKADE_LIMIT_WALL_TIME": "8"},
        limits={"wall_time": 7},
    )  # fmt: skip
    limits = found.policy.limits
    assert (limits.open_files, limits.memory, limits.processes, limits.wall_time) == (64, 2**30, 4, 7)
    assert [found.origins[f"limits.{name}"] for name in ("stack", "open_files", "memory", "processes", "wall_time")] == [
        "default", "profile strict", f"file {file}", "environment STOCKADE_LIMIT_PROCESSES", "argument",
    ]  # fmt: skip


def test_resolve_reads_environment_by_default(monkeypatch):
    monkeypatch.setenv("STOCKADE_NETWORK", "host")
    assert resolve().policy.network == "host"
    assert resolve(variables={}).policy.network == "none"
    assert Policy().network == "none" == Policy.profile("moderate").network


def test_resolve_mistakes_name_their_sources(tmp_path):
    file = tmp_path / "p.toml"
    file.write_text('networc = "none"\n[limits]\nmemory = "lots"\n')
    found = problems(file=file, variables={"STOCKADE_LIMIT_SWAP": "x"}, on_output="explode")
    assert len(found) == 4
    assert sum(each.endswith(f"(file {file})") for each in found) == 2
    assert any(each.startswith("on_output = 'explode'") and each.endswith("(argument)") for each in found)


def test_resolve_overridden_mistake_is_reported(tmp_path):
    file = tmp_path / "p.toml"
    file.write_text('[limits]\nmemory = "lots"\n')
    (found,) = problems(file=file, limits={"memory": "64MiB"})
    assert found.startswith("limits.memory = 'lots'")


@pytest.mark.parametrize(
    "fields", [{"limits": 3}, {"limits": None}, {"accept": ["memory"]}, {"filesystem": {"raed": ()}}]
)
def test_resolve_invalid_table_or_field_refused(fields):
    assert problems(profile="strict", **fields)


def test_resolve_dependent_fields_across_sources():
    filtered = {"variables": {"STOCKADE_SECURITY_SYSCALLS_FILE": "/f.json"}, "security": {"syscalls_mode": "replace"}}
    assert resolve(**filtered).policy.security.syscalls_mode == "replace"
    assert problems(security={"syscalls_mode": "replace"})


def test_resolve_duplicate_key_is_refused(tmp_path):
    file = tmp_path / "p.json"
    file.write_text('{"network": "none", "network": "host"}')
    (found,) = problems(file=file)
    assert "'network' appears twice" in found
    with pytest.raises(PolicyError, match="twice"):
        Policy.load(file)


def test_resolve_each_kind_of_ceiling_bounds(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[limits]\nmemory = "64MiB"\n')
    file.chmod(0o644)
    for ceiling in ("strict", {"limits": {"memory": "64MiB"}}, Policy(limits={"memory": "64MiB"}), Path(file)):
        found = resolve(variables={}, ceiling=ceiling)
        assert found.policy.limits.memory == 2**26
        assert found.origins["limits.memory"].startswith("ceiling ")
    assert found.origins["limits.memory"] == f"ceiling {file}"
    assert (found.policy.limits.processes, found.origins["limits.processes"]) == (10, "default")
    assert resolve(variables={}, ceiling="strict").policy.limits.processes == 1
