"""``policy show``, ``check``, ``profiles`` and ``schema``, with the options and variables of other commands."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import stockade as library
from stockade.policy.profiles import PROFILES
from stockade.policy.rules import RULES


def test_policy_show_output_reads_back_equal(stockade, folder: Path):
    options = (
        "--limit", "memory=64MiB", "--limit", "wall_time=1.5s", "--limit", "cpu_time=unlimited", "--read", "/usr/share",
        "--env", 'A=quote " back \\ new\nline \x7f é', "--inherit-env", "PATH", "--accept", "memory=absent",
        "--on-output", "kill", "--network", "host",
    )  # fmt: skip
    text = stockade("policy", "show", *options).stdout.decode()
    (folder / "policy.toml").write_text(text)
    again = stockade("policy", "show", "--policy", "policy.toml", "--json")
    shown = json.loads(stockade("policy", "show", *options, "--json").stdout)
    assert json.loads(again.stdout)["policy"] == shown["policy"]
    policy = library.Policy.parse(tomllib.loads(text))
    assert policy.limits.memory == 64 * 2**20
    assert policy.environment.set["A"] == 'quote " back \\ new\nline \x7f é'
    assert library.Policy.load(folder / "policy.toml") == policy
    assert library.Policy.parse(shown["policy"]) == policy


def test_policy_allow_options_add_to_network_of_file(stockade, folder: Path):
    (folder / "p.toml").write_text("network = { allow = ['a.org:443'], sent = '1MiB' }\n")
    options = ("--policy", "p.toml", "--allow", "*.b.org:443", "--allow", "packages")
    data, origins = shown(stockade, *options)
    network = data["network"]
    assert (network["allow"], network["packages"], network["sent"]) == (["a.org:443", "*.b.org:443"], True, 1 << 20)
    assert origins["network"] == "file p.toml, argument --allow *.b.org:443, argument --allow packages"
    text = stockade("policy", "show", *options).stdout.decode()
    (folder / "again.toml").write_text(text)
    assert library.Policy.load(folder / "again.toml").network == library.Network(**network)


def shown(stockade, *options, **more):
    done = stockade("policy", "show", *options, "--json", **more)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    return data["policy"], data["origins"]


def test_policy_options_add_to_file_and_override_it(stockade, folder: Path):
    (folder / "p.json").write_text('{"limits": {"memory": "1GiB", "processes": 3}, "filesystem": {"read": ["/usr"]}}')
    data, origins = shown(stockade, "--policy", "p.json", "--limit", "memory=2GiB", "--read", "/etc")
    assert (data["limits"]["memory"], data["limits"]["processes"]) == (2 * 2**30, 3)
    assert data["filesystem"]["read"] == ["/usr", "/etc"]
    assert origins["limits.memory"] == "argument --limit memory"
    assert origins["limits.processes"] == "file p.json"
    assert origins["filesystem.read"] == "file p.json, argument --read /etc"


def test_policy_later_sources_override_earlier(stockade, folder: Path):
    (folder / "p.toml").write_text("[limits]\nmemory = '1GiB'\nprocesses = 3\nwall_time = 3\n")
    variables = {"STOCKADE_LIMIT_PROCESSES": "4", "STOCKADE_LIMIT_WALL_TIME": "4s", "STOCKADE_ACCEPT_DISK": "absent"}
    data, origins = shown(
        stockade, "--profile", "strict", "--policy", "p.toml", "--limit", "wall_time=5", env=variables
    )  # fmt: skip
    limits = data["limits"]
    assert (limits["open_files"], limits["memory"], limits["processes"], limits["wall_time"]) == (64, 2**30, 4, 5)
    assert set(origins) == {*RULES, "accept.disk"} - {"environment.set", "accept"}
    assert {field: origin for field, origin in origins.items() if origin not in ("default", "profile strict")} == {
        "limits.memory": "file p.toml",
        "limits.processes": "environment STOCKADE_LIMIT_PROCESSES",
        "limits.wall_time": "argument --limit wall_time",
        "accept.disk": "environment STOCKADE_ACCEPT_DISK",
    }


def test_policy_variables_set_profile_and_file(stockade, folder: Path):
    (folder / "p.toml").write_text("[limits]\nprocesses = 3\n")
    variables = {"STOCKADE_PROFILE": "strict", "STOCKADE_POLICY": "p.toml"}
    data, _ = shown(stockade, env=variables)
    assert (data["limits"]["memory"], data["limits"]["processes"]) == (64 * 2**20, 3)
    data, _ = shown(stockade, "--profile", "moderate", env=variables)
    assert (data["limits"]["memory"], data["limits"]["processes"]) == (256 * 2**20, 3)


@pytest.mark.parametrize("name", PROFILES)
def test_policy_show_profile_loads_as_profile(stockade, folder: Path, monkeypatch, name):
    text = stockade("policy", "show", "--profile", name).stdout.decode()
    monkeypatch.chdir(folder)
    assert library.Policy.parse(tomllib.loads(text)) == library.Policy.profile(name)
    assert f"  # (profile {name}) bytes of memory" in text


def test_policy_show_default_accept_is_a_comment(stockade):
    text = stockade("policy", "show", "--accept", "swap=kernel").stdout.decode()
    assert text.endswith('swap = "kernel"  # (argument --accept swap)\n# memory = "supervisor"  # (default)\n')


def test_policy_show_newline_in_file_name_is_escaped(stockade, folder: Path):
    (folder / "a\nnetwork = 'host'").write_text("[limits]\nprocesses = 3\n")
    text = stockade("policy", "show", "--policy", "a\nnetwork = 'host'").stdout.decode()
    assert tomllib.loads(text)["network"] == "none"


def test_policy_ceiling_lowers_and_refuses(stockade, folder: Path):
    (folder / "ceiling.toml").write_text('[limits]\nmemory = "64MiB"\n[filesystem]\nread = ["/srv"]\n')
    (folder / "ceiling.toml").chmod(0o644)
    data, origins = shown(stockade, "--ceiling", "ceiling.toml", "--limit", "memory=unlimited")
    assert data["limits"]["memory"] == 64 * 2**20
    assert origins["limits.memory"] == "ceiling ceiling.toml"
    done = stockade("run", "--ceiling", "ceiling.toml", "--read", "/etc", "--", "true")
    assert done.returncode == 2
    assert b"'/etc' is not allowed: the ceiling has filesystem.read = ['/srv']" in done.stderr
    done = stockade("run", "--ceiling", "ceiling.toml", "--limit", "memory=1GiB", "-c", "x = bytearray(100 << 20)")
    assert done.returncode in (1, 137)  # a MemoryError where no control group counts
    done = stockade("run", "--limit", "memory=1GiB", "-c", "x = bytearray(100 << 20)")
    assert done.returncode == 0


def test_policy_options_reach_run_plan_and_estimate(stockade):
    done = stockade("plan", "--profile", "strict", "--json")
    assert (json.loads(done.stdout)["limits"]["memory"], done.returncode) == (64 * 2**20, 0)
    done = stockade("run", "-c", "print(1)", env={"STOCKADE_LIMIT_MEMORY": "lots"})
    assert done.returncode == 2
    assert b"limits.memory = 'lots'" in done.stderr and b"(environment STOCKADE_LIMIT_MEMORY)" in done.stderr
    done = stockade("run", "-c", "print(1)", env={"STOCKADE_LIMITS_MEMORY": "64MiB"})
    assert b"did you mean STOCKADE_LIMIT_MEMORY?" in done.stderr
    for words in (["run", "-c", "1"], ["plan"], ["estimate", "--measure", "true"]):
        done = stockade(words[0], "--profile", "strct", *words[1:])
        assert (done.returncode, b"did you mean 'strict'?" in done.stderr) == (2, True)


BAD_TOML = """\
networc = "none"

limits = { memory = "lots", prcesses = 3 }
[filesystem]
read = [
  "/usr",
  "../x",
]  # a comment
access = "all"
[accept]
memry = "kernel"
swap = "iron"
"""
BAD_JSON = """\
{"limits": {"memory": "lots",
            "prcesses": 3},
 "filesystem": {"read": ["/usr",
                         "../x"]}, "network": "x"}
"""


def test_policy_check_gives_position_of_every_mistake(stockade, folder: Path):
    (folder / "good.toml").write_text('network = "none"\n')
    done = stockade("policy", "check", "good.toml")
    assert (done.returncode, done.stdout) == (0, b"good.toml: no mistakes\n")
    (folder / "bad.toml").write_text(BAD_TOML)
    done = stockade("policy", "check", "bad.toml")
    assert done.returncode == 2
    assert [line.split(" = ")[0] for line in done.stdout.decode().splitlines()] == [
        "bad.toml:1:1: networc", "bad.toml:3:12: limits.memory", "bad.toml:3:29: limits.prcesses",
        "bad.toml:5:1: filesystem.read.1", "bad.toml:9:1: filesystem.access", "bad.toml:11:1: accept.memry",
        "bad.toml:12:1: accept.swap",
    ]  # fmt: skip
    for meant in ("network", "processes", "memory"):
        assert f"did you mean '{meant}'?" in done.stdout.decode()
    data = json.loads(stockade("policy", "check", "--json", "bad.toml").stdout)
    assert (data["ok"], data["error"], len(data["problems"])) == (False, "PolicyError", 7)
    assert {"line", "column", "field", "value", "reason"} == set(data["problems"][0])


def test_policy_check_separates_fields_of_one_name(stockade, folder: Path):
    (folder / "bad.toml").write_text('[environment.set]\nread = "1"\n[filesystem]\n# read\nread = 3\nwrite = 3\n')
    lines = stockade("policy", "check", "bad.toml").stdout.decode().splitlines()
    assert [line.split(" = ")[0] for line in lines] == [
        "bad.toml:5:1: filesystem.read",
        "bad.toml:6:1: filesystem.write",
    ]


def test_policy_check_gives_positions_in_json(stockade, folder: Path):
    (folder / "bad.json").write_text(BAD_JSON)
    lines = stockade("policy", "check", "bad.json").stdout.decode().splitlines()
    assert [line.split(" = ")[0] for line in lines] == [
        "bad.json:1:13: limits.memory", "bad.json:2:13: limits.prcesses", "bad.json:4:26: filesystem.read.1",
        "bad.json:4:36: network",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "begin"),
    [
        ("a.toml", "network = 'none'\n[limits\n", "a.toml:2:8: not TOML: "),
        ("a.toml", "[limits]\nmemory = ", "a.toml:2:"),
        ("a.toml", "x = [\n1,\n", "a.toml:2:1: not TOML: "),
        ("a.toml", "a = 1\na = 2\n", "a.toml:2:"),
        ("a.json", '{"limits": {}\n,}', "a.json:2:"),
        ("a.json", '{"network": "none", "network": "host"}', "a.json: 'network' appears twice"),
        ("a.json", "[]", "a.json: policy = "),
        ("a.json", "[" * 100000, "a.json: "),
    ],
)
def test_policy_check_malformed_file_is_refused(stockade, folder: Path, name, text, begin):
    (folder / name).write_text(text)
    done = stockade("policy", "check", name)
    assert (done.returncode, done.stderr) == (2, b"")
    assert done.stdout.decode().startswith(begin)
    assert json.loads(stockade("policy", "check", "--json", name).stdout)["ok"] is False


def test_policy_check_missing_file_is_refused(stockade):
    done = stockade("policy", "check", "absent.toml")
    assert (done.returncode, b"cannot be read" in done.stdout) == (2, True)


def test_policy_profiles_prints_all_profiles(stockade):
    text = stockade("policy", "profiles").stdout.decode()
    rows = {line.split()[0]: line.split("  ") for line in text.splitlines()[1 : len(PROFILES) + 1]}
    assert list(rows) == list(PROFILES)
    assert [cell.strip() for cell in rows["conservative"] if cell.strip()] == [
        "conservative", "128 MiB [1, 2]", "0.5 cores [4]", "5 s", "5", "100", "10000", "none", "nothing",
        "namespaces [3]", "kill 64 KiB",
    ]  # fmt: skip
    assert "\n[4] limits.cpu_rate: if no control group bounds it" in text
    data = json.loads(stockade("policy", "profiles", "--json").stdout)
    assert [each["name"] for each in data] == list(PROFILES)
    assert data[1]["fields"]["limits"]["memory"] == "64MiB"


def test_policy_schema_prints_json_schema(stockade):
    schema = json.loads(stockade("policy", "schema").stdout)
    assert schema["additionalProperties"] is False
    assert "memory" in schema["$defs"]["Limits"]["properties"]
