"""Environment variables set fields of a policy, and a wrong name or value is an error."""

import pytest

from stockade import Guarantee, PolicyError, Strength, resolve


def problems(**variables):
    with pytest.raises(PolicyError) as caught:
        resolve(variables={f"STOCKADE_{name}": value for name, value in variables.items()})
    return [str(each) for each in caught.value.problems]


def test_env_vars_each_kind_of_field_is_read():
    found = resolve(
        variables={
            "STOCKADE_LIMIT_MEMORY": "64MiB", "STOCKADE_NETWORK": "host", "STOCKADE_FILESYSTEM_READ": "/srv:/opt",
            "STOCKADE_SECURITY_UID": "7", "STOCKADE_SECURITY_EXPLAIN_DENIALS": "true", "STOCKADE_ACCEPT_SWAP": "kernel",
            "STOCKADE_ENVIRONMENT_SET_Lang": "de", "STOCKADE_COMMANDS_ALLOW": "git *:ls", "STOCKADE_ISOLATION": "process",
        }
    )  # fmt: skip
    policy = found.policy
    assert (policy.limits.memory, policy.network, policy.filesystem.read) == (2**26, "host", ("/srv", "/opt"))
    assert (policy.security.uid, policy.security.explain_denials) == (7, True)
    assert policy.accept == {Guarantee.SWAP: Strength.KERNEL}
    assert policy.environment.set == {"Lang": "de"}
    assert policy.commands.allow == ("git *", "ls")
    assert found.origins["limits.memory"] == "environment STOCKADE_LIMIT_MEMORY"
    assert found.origins["accept.swap"] == "environment STOCKADE_ACCEPT_SWAP"


def test_env_vars_empty_list_means_nothing():
    assert resolve(variables={"STOCKADE_COMMANDS_ALLOW": ""}).policy.commands.allow == ()


def test_env_vars_name_profile_and_file(tmp_path):
    file = tmp_path / "p.toml"
    file.write_text("[limits]\nprocesses = 3\n")
    variables = {"STOCKADE_PROFILE": "strict", "STOCKADE_POLICY": str(file), "STOCKADE_LIMIT_OPEN_FILES": "9"}
    found = resolve(variables=variables)
    limits = found.policy.limits
    assert (limits.memory, limits.processes, limits.open_files) == (2**26, 3, 9)
    assert found.origins["limits.processes"] == f"file {file}"
    assert resolve(variables=variables, profile="moderate").policy.limits.memory == 2**28


def test_env_vars_unknown_name_is_refused():
    found = problems(NETWROK="none", MEMORY="1", LIMITS_MEMORY="1", BOGUS="", ACCEPT_="kernel", LIMIT_MEMORY="64MiB")
    assert len(found) == 5
    assert "STOCKADE_NETWROK = 'none': there is no such variable; did you mean STOCKADE_NETWORK?" in found
    assert "STOCKADE_MEMORY = '1': there is no such variable; did you mean STOCKADE_LIMIT_MEMORY?" in found
    assert "STOCKADE_LIMITS_MEMORY = '1': there is no such variable; did you mean STOCKADE_LIMIT_MEMORY?" in found


def test_env_vars_other_names_are_ignored():
    assert resolve(variables={"STOCKADE_UID_RANGE": "1-2", "stockade_network": "x", "PATH": ""}) == resolve(
        variables={}
    )


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("LIMIT_MEMORY", "lots", "limits.memory"), ("SECURITY_UID", "", "security.uid"),
        ("SECURITY_UID", "-1", "security.uid"), ("SECURITY_EXPLAIN_DENIALS", "maybe", "security.explain_denials"),
        ("NETWORK", "", "network"), ("ACCEPT_MEMRY", "kernel", "accept.memry"), ("FILESYSTEM_READ", "/", "filesystem.read.0"),
        ("POLICY", "/nowhere.toml", "policy"), ("PROFILE", "", "profile"),
    ],
)  # fmt: skip
def test_env_vars_invalid_value_names_variable(name, value, field):
    (found,) = problems(**{name: value})
    assert found.startswith(f"{field} = ")
    assert name in ("POLICY", "PROFILE") or found.endswith(f"(environment STOCKADE_{name})")
