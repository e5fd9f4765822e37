"""In layers, the later wins, merging twice changes nothing, and every field names the layer that set it."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from stockade import Policy, PolicyError, resolve
from stockade.cli.toml import policy_as_toml
from stockade.policy.env_vars import name_of
from stockade.policy.merge import Layer, leaves, merge
from stockade.policy.profiles import PROFILES
from stockade.policy.rules import RULES, Written
from tests.property.policies import VALUES, all_fields, fields, layers, without_targets


def test_every_field_has_sample_values():
    assert set(VALUES) == set(RULES)


@given(layers())
def test_valid_layers_merge_to_a_policy(given_layers):
    Policy.parse(merge(given_layers).data())


@given(layers(), fields())
def test_last_layer_wins_in_its_fields(given_layers, last):
    merged = merge([*given_layers, Layer("last", last)])
    for path, value in leaves(last):
        assert (merged.values[path], merged.origins[path]) == (value, "last")


@given(layers())
def test_merging_again_changes_nothing(given_layers):
    once, twice = merge(given_layers), merge([*given_layers, *given_layers])
    assert (once.values, once.origins) == (twice.values, twice.origins)


@given(layers(), layers(), layers())
def test_merging_is_associative(first, second, third):
    whole = merge([*first, *second, *third]).values
    left = Layer("merged", merge([*first, *second]).data())
    right = Layer("merged", merge([*second, *third]).data())
    assert merge([left, *third]).values == whole
    assert merge([*first, right]).values == whole


@given(layers())
def test_unset_field_is_inherited(given_layers):
    policy = Policy.parse(merge(given_layers).data())
    set_here = {".".join(path[:2] if path[0] != "accept" else path[:1]) for each in given_layers for path, _ in leaves(each.values)}  # fmt: skip
    usual = all_fields(Policy())
    for path, value in all_fields(policy).items():
        assert path in set_here or value == usual[path]


@given(layers())
def test_origin_names_layer_that_set_the_value(given_layers):
    merged = merge(given_layers)
    said = {(each.name, path): value for each in given_layers for path, value in leaves(each.values)}
    for path, origin in merged.origins.items():
        assert said[origin, path] == merged.values[path]


@given(st.lists(st.lists(st.sampled_from(["/a", "/b", "/c"]), max_size=2), max_size=4))
def test_origin_of_added_list_names_all_layers(given_lists):
    adding = [Layer(f"layer {n}", {"filesystem": {"read": each}}, adds=True) for n, each in enumerate(given_lists)]
    merged = merge(adding)
    together = [path for each in given_lists for path in each]
    assert list(merged.values.get(("filesystem", "read"), [])) == together
    named = merged.origins.get(("filesystem", "read"), "")
    assert all(each.name in named for each in adding if each.values["filesystem"]["read"])


@given(st.sampled_from(sorted(PROFILES)), fields(), without_targets())
def test_profile_variables_arguments_apply_in_order(profile, outer, inner):
    variables = _as_variables(inner)
    try:
        found = resolve(profile=profile, variables=variables, **outer)
    except PolicyError as error:  # the current folder may be no project, and a value with a ':' no list
        raise AssertionError(str(error)) from error
    for path, origin in found.origins.items():
        named = tuple(path.split("."))
        if named in dict(leaves(outer)):
            assert origin == "argument"
        elif origin.startswith("environment "):
            assert origin.removeprefix("environment ") in variables
        else:
            assert origin in ("default", f"profile {profile}")


def _as_variables(values):
    made = {}
    for path, value in leaves(values):
        name = ".".join(path)
        if name in RULES:
            made[name_of(name)] = ":".join(value) if RULES[name].written is Written.LIST else _text(value)
        elif path[0] == "accept":
            made[f"STOCKADE_ACCEPT_{path[1].upper()}"] = value
        else:
            made[f"STOCKADE_ENVIRONMENT_SET_{path[2]}"] = value
    return made


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


@given(without_targets())
def test_policy_survives_environment_variables(values):
    assert resolve(variables=_as_variables(values)).policy == Policy.parse(values)


@given(st.sampled_from(sorted(PROFILES)), fields())
def test_policy_survives_toml(profile, values):
    found = resolve(profile=profile, variables={}, **values)
    text = policy_as_toml(found)
    assert Policy.parse(tomllib.loads(text)) == found.policy
    assert resolve(variables={}, **tomllib.loads(text)).policy == found.policy
