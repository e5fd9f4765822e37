"""Every field of the policy needs a rule for merging and for ceilings."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from stockade import Policy
from stockade.policy import env_vars
from stockade.policy.rules import RULES, Written

ROOT = Path(__file__).parents[3]


def fields(model, start=""):
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from fields(kind, f"{name}.")
        else:
            yield start + name, field


def test_rules_cover_exactly_the_policy_fields():
    assert {path for path, _ in fields(Policy)} == set(RULES), (
        "a new field needs a line in stockade/policy/rules.py, and values in tests/property/policies.py"
    )


@pytest.mark.parametrize("path", RULES)
def test_rule_optional_matches_a_none_default(path):
    default = dict(fields(Policy))[path].get_default(call_default_factory=True)
    assert RULES[path].optional == (default is None)
    assert (RULES[path].written is Written.LIST) == (isinstance(default, tuple) or path == "commands.allow")
    assert (RULES[path].written is Written.FLAG) == isinstance(default, bool)
    assert RULES[path].by_key == isinstance(default, dict)


def test_rules_variables_are_unique():
    names = [env_vars.name_of(path) for path in RULES]
    assert len(set(names)) == len(names)
    by_key = [env_vars.name_of(path) + "_" for path in RULES if RULES[path].by_key]
    assert not any(name.startswith(start) for name in names for start in by_key)
    assert not {*names} & {env_vars.PROFILE, env_vars.POLICY, *env_vars.OTHERS}


def test_env_vars_read_by_project_are_known():
    used = set()
    for folder in ("src", "scripts", "tests"):
        for path in (ROOT / folder).rglob("*"):
            of_tests = folder == "tests" and path.parent.name in ("unit", "property", "cli")
            if path.suffix in (".py", ".sh") and not of_tests:
                used |= set(re.findall(r"environ(?:\.get\(|\[)\"(STOCKADE_\w+)", path.read_text()))
                used |= set(re.findall(r"envvar=\"(STOCKADE_\w+)", path.read_text())) & set(env_vars.OTHERS)
                used |= set(re.findall(r"^_VARIABLE = \"(STOCKADE_\w+)", path.read_text(), re.MULTILINE))
    used -= {"STOCKADE_TEST_TOKEN"}  # a secret that guests look for; the process with it reads no policy
    assert used == set(env_vars.OTHERS)
