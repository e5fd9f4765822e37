"""No policy exceeds a ceiling; a ceiling only tightens; applying it twice changes nothing more."""

import contextlib

from hypothesis import assume, given
from hypothesis import strategies as st

from stockade import Isolation, Policy, PolicyError, Trust, resolve
from stockade.api.select import _floor
from stockade.policy.ceiling import of, under, value_of
from stockade.policy.commands import covers, matches
from stockade.policy.parts.network import Network
from stockade.policy.profiles import PROFILES
from stockade.policy.rules import RULES
from tests.property.policies import (
    all_fields,
    ceilings,
    effective_access,
    fields,
    looser,
    policies,
    readable_outside,
    writable_outside,
)

# Of two equally strict words and of two uids one is taken; two lists of patterns may say the same.
_KEPT_BY_CHANCE = ("filesystem.access", "security.uid", "commands.allow")


def lowered(policy, ceiling, trust=None):
    """Return the policy under a ceiling, or ``None`` if it is refused, as about half of all examples are."""
    with contextlib.suppress(PolicyError):
        return under(policy, ceiling, trust)
    return None, ()


@given(policies(), ceilings())
def test_bounded_policy_never_exceeds_ceiling(policy, most):
    ceiling = of(most, "c")
    found, _ = lowered(policy, ceiling)
    if found is not None:
        for path, value in ceiling.fields.items():
            assert not looser(path, value_of(found, path), value, found), path
        assert readable_outside(found, ceiling.fields) == []
        assert writable_outside(found, ceiling.fields) == []


@given(policies(), ceilings())
def test_ceiling_never_loosens_policy(policy, most):
    found, _ = lowered(policy, of(most, "c"))
    if found is not None:
        assert effective_access(found) <= effective_access(policy)
        for path in RULES:
            ours = value_of(policy, path)
            if path not in ("security.uid", "filesystem.access") and ours is not None:
                assert not looser(path, value_of(found, path), ours, found), path


@given(policies(), ceilings())
def test_fields_outside_ceiling_stay_unchanged(policy, most):
    ceiling = of(most, "c")
    found, changed = lowered(policy, ceiling)
    if found is not None:
        for path, value in all_fields(found).items():
            assert value == value_of(policy, path) or (path in changed and path in ceiling.fields), path
        assert all(value_of(found, path) != value_of(policy, path) for path in changed)


@given(policies(), ceilings())
def test_ceiling_applied_twice_changes_nothing(policy, most):
    found, _ = lowered(policy, of(most, "c"))
    if found is not None:
        assert under(found, of(most, "c")) == (found, ())


@given(ceilings())
def test_ceiling_satisfies_itself(most):
    with contextlib.suppress(PolicyError):  # a ceiling may name paths to write that it does not name to read
        found, _ = under(most, of(most, "c"))
        assert found == most


@given(policies(), ceilings(), ceilings())
def test_two_ceilings_give_same_in_either_order(policy, first, second):
    one, other = (of(each, "c") for each in (first, second))
    found, _ = lowered(policy, one)
    found, _ = lowered(found, other) if found else (None, ())
    turned, _ = lowered(policy, other)
    turned, _ = lowered(turned, one) if turned else (None, ())
    if found is not None and turned is not None:
        for path in RULES:
            if path not in _KEPT_BY_CHANCE:
                ours, theirs = value_of(found, path), value_of(turned, path)
                assert _in_any_order(ours) == _in_any_order(theirs), path


def _in_any_order(value):
    if isinstance(value, Network):
        trusted = None if value.secret_hosts is None else set(value.secret_hosts)
        own = value.model_dump(exclude={"allow", "packages", "secret_hosts"})
        return {**own, "targets": set(value.targets), "trusted": trusted}
    return set(value) if isinstance(value, tuple) else value


WALLS = st.sampled_from(["process", "namespaces", "user_kernel", "wasm", "own_kernel"])


@given(st.none() | WALLS, WALLS, st.sampled_from([None, *Trust]))
def test_ceiling_never_lowers_required_isolation(ours, most, trust):
    policy = Policy(isolation=ours)
    found, _ = under(policy, of(Policy(isolation=most), "c"), trust)
    assert _floor(found, trust)[0].at_least(_floor(policy, trust)[0])
    assert _floor(found, trust)[0].at_least(Isolation(most))


@given(st.sampled_from(sorted(PROFILES)), fields(), fields(), ceilings())
def test_layers_never_exceed_ceiling(profile, values, more, most):
    ceiling = of(most, "argument")
    assume(ceiling.fields)
    try:
        found = resolve(profile=profile, variables={}, ceiling=most, **{**more, **values})
    except PolicyError as error:
        assert all(each.origin == "ceiling argument" for each in error.problems)
        return
    for path, value in ceiling.fields.items():
        assert not looser(path, value_of(found.policy, path), value, found.policy), path
        if path != "accept" and "ceiling" in found.origins.get(path, ""):
            assert value_of(resolve(profile=profile, variables={}, **{**more, **values}).policy, path) != value_of(
                found.policy, path
            )


WORDS = st.sampled_from(["a", "b", "ab", "*", "?", "a*", "/x/a"])
PATTERNS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
COMMANDS = st.lists(st.sampled_from(["a", "b", "ab", "/x/a", "/y/a", ""]), min_size=1, max_size=5)


@given(PATTERNS, PATTERNS, st.lists(COMMANDS, max_size=30))
def test_covering_pattern_matches_all_of_narrower(wide, narrow, commands):
    if covers(wide, narrow):
        assert all(matches(argv, wide) for argv in commands if matches(argv, narrow))


def test_examples_include_allowed_and_refused():
    assert under(Policy(), of(Policy(limits={"memory": "8MiB"}), "c"))[1] == ("limits.memory",)
    assert lowered(Policy(network="host"), of(Policy(network="none"), "c"))[0].network == "none"
    assert lowered(Policy(filesystem={"read": ["/srv"]}), of(Policy(filesystem={"read": []}), "c")) == (None, ())
