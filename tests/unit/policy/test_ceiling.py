"""Each kind of decision of a ceiling, with one case. ``tests/property`` checks that no policy exceeds a ceiling."""

import pytest

from stockade import Policy, PolicyError, Strength
from stockade.policy import ceiling as _ceiling
from stockade.policy.ceiling import of, under
from stockade.policy.parts import Network
from stockade.policy.rules import RULES


def lowered(policy, ceiling):
    return under(Policy.parse(policy), of(Policy.parse(ceiling), "c"))


def refused(policy, ceiling):
    with pytest.raises(PolicyError) as caught:
        lowered(policy, ceiling)
    return [str(each) for each in caught.value.problems]


@pytest.mark.parametrize(
    ("policy", "ceiling", "field", "value"),
    [
        ({"limits": {"memory": "1GiB"}}, {"limits": {"memory": "64MiB"}}, "limits.memory", 2**26),
        ({"limits": {"memory": "unlimited"}}, {"limits": {"memory": "64MiB"}}, "limits.memory", 2**26),
        ({"limits": {"cpu_rate": 2}}, {"limits": {"cpu_rate": 0.5}}, "limits.cpu_rate", 0.5),
        ({}, {"limits": {"wall_time": 1}}, "limits.wall_time", 1),
        ({}, {"limits": {"soft_memory": "64MiB"}}, "limits.soft_memory", 2**26),
        ({"network": "host"}, {"network": "none"}, "network", "none"),
        ({"network": {"allow": ["a.org:1"]}}, {"network": "none"}, "network", "none"),
        ({"network": "host"}, {"network": {"allow": ["a.org:1"]}}, "network", Network(allow=["a.org:1"])),
        ({"network": {"allow": ["*.a.org:1", "b.org:1"], "sent": 9}}, {"network": {"allow": ["x.a.org:1"], "sent": 5}},
         "network", Network(allow=["x.a.org:1"], sent=5)),
        ({"network": {"packages": True}}, {"network": {"allow": ["pypi.org:443"]}}, "network", Network(allow=["pypi.org:443"])),
        ({"network": {"allow": ["a.org:1"]}}, {"network": {}}, "network", Network()),
        ({"network": {"allow": ["a.org:1"]}}, {"network": {"allow": ["a.org:1"], "secret_hosts": []}}, "network",
         Network(allow=["a.org:1"], secret_hosts=[])),
        ({"network": {"allow": ["*.a.org:1"], "secret_hosts": ["*.a.org:1"]}}, {"network": {"allow": ["*.a.org:1"], "secret_hosts": ["x.a.org:1"]}},
         "network", Network(allow=["*.a.org:1"], secret_hosts=["x.a.org:1"])),
        ({}, {"filesystem": {"access": "read"}}, "filesystem.access", "read"),
        ({"filesystem": {"workspace": "/srv", "access": "write"}}, {"filesystem": {"access": "copy"}}, "filesystem.access", "copy"),
        ({"filesystem": {"protected": ["a"]}}, {"filesystem": {"protected": ["b", "a"]}}, "filesystem.protected", ("a", "b")),
        ({"filesystem": {"hidden": []}}, {"filesystem": {"hidden": ["x"]}}, "filesystem.hidden", ("x",)),
        ({"commands": {"refuse": ["rm *"]}}, {"commands": {"refuse": ["mv *"]}}, "commands.refuse", ("rm *", "mv *")),
        ({}, {"commands": {"allow": ["git *"]}}, "commands.allow", ("git *",)),
        ({}, {"commands": {"allow": []}}, "commands.allow", ()),
        ({}, {"isolation": "namespaces"}, "isolation", "namespaces"),
        ({"isolation": "process"}, {"isolation": "wasm"}, "isolation", "wasm"),
        ({}, {"on_output": "kill"}, "on_output", "kill"),
        ({"security": {"syscalls": "permissive"}}, {"security": {"syscalls": "tight"}}, "security.syscalls", "tight"),
        ({"security": {"read_only_root": False}}, {"security": {"read_only_root": True}}, "security.read_only_root", True),
        ({"security": {"explain_denials": True}}, {"security": {"explain_denials": False}}, "security.explain_denials", False),
        ({}, {"security": {"uid": 0}}, "security.uid", 0),
        ({}, {"accept": {"memory": "kernel"}}, "accept", {"memory": Strength.KERNEL}),
        ({"accept": {"disk": "absent"}}, {"accept": {"disk": "supervisor"}}, "accept", {"disk": Strength.SUPERVISOR}),
    ],
)  # fmt: skip
def test_ceiling_ordered_value_is_lowered(policy, ceiling, field, value):
    found, changed = lowered(policy, ceiling)
    assert (_ceiling.value_of(found, field), changed) == (value, (field,))


@pytest.mark.parametrize(
    ("policy", "ceiling"),
    [
        ({}, {}), ({"limits": {"memory": "8MiB"}}, {"limits": {"memory": "64MiB"}}), ({}, {"network": "host"}),
        ({}, {"network": {"allow": ["a.org:1"]}}), ({"network": {"allow": ["a.org:1"]}}, {"network": "host"}),
        ({"network": {"allow": ["x.a.org:1"]}}, {"network": {"allow": ["*.a.org:1"], "requests": 5000}}),
        ({"network": {"allow": ["a.org:1"], "secret_hosts": []}}, {"network": {"allow": ["a.org:1"]}}),
        ({"isolation": "wasm"}, {"isolation": "namespaces"}), ({}, {"isolation": "process"}),
        ({"filesystem": {"read": ["/srv/a"]}}, {"filesystem": {"read": ["/srv"]}}),
        ({"filesystem": {"read": ["/data/x"]}}, {"filesystem": {"read": [], "write": ["/data"]}}),
        ({"filesystem": {"read": ["/anywhere"]}}, {"filesystem": {"write": []}}),
        ({"filesystem": {"workspace": "/srv/a"}}, {"filesystem": {"workspace": "/srv", "read": []}}),
        ({"filesystem": {"workspace": "/srv", "access": "write"}}, {"filesystem": {"workspace": "/srv", "access": "write", "write": []}}),
        ({"filesystem": {"workspace": "/srv", "access": "copy"}}, {"filesystem": {"access": "overlay"}}),
        ({"commands": {"allow": ["git log"]}}, {"commands": {"allow": ["git *"]}}),
        ({"environment": {"inherit": ["LANG"]}}, {"environment": {"inherit": ["LANG", "TERM"]}}),
        ({"security": {"syscalls_file": "/f.json"}}, {"security": {"syscalls": "standard", "syscalls_file": "/f.json"}}),
        ({"security": {"syscalls_file": "/f.json"}}, {"limits": {"memory": "1GiB"}}),
        ({"security": {"host_uid": 5}}, {"security": {"host_uid": 5}}),
        ({"limits": {"memory": "32MiB"}}, {"limits": {"soft_memory": "64MiB"}}),
        ({}, {"security": {"host_uid": 5}}), ({}, {"accept": {"memory": "absent"}}),
        ({"environment": {"set": {"A": "1"}}}, {"environment": {"set": {}}}),
    ],
)  # fmt: skip
def test_ceiling_value_below_stays_unchanged(policy, ceiling):
    assert lowered(policy, ceiling) == (Policy.parse(policy), ())


FILTER = {"syscalls_file": "/f.json"}


@pytest.mark.parametrize(
    ("policy", "ceiling", "words"),
    [
        ({"read": ["/etc"]}, {"read": ["/srv"]}, ("filesystem.read = '/etc'", "filesystem.read = ['/srv']")),
        ({"read": ["/srvx"]}, {"read": ["/srv"]}, ("'/srvx' is not allowed",)),
        ({"read": ["/srv"]}, {"read": []}, ("filesystem.read = []",)),
        ({"write": ["/etc"]}, {"write": ["/srv"]}, ("filesystem.write = ['/etc']", "filesystem.write = ['/srv']")),
        ({"write": ["/etc"]}, {"read": ["/srv"]}, ("filesystem.write = '/etc'", "filesystem.read = ['/srv']")),
        ({"workspace": "/etc"}, {"read": ["/srv"]}, ("filesystem.workspace = '/etc'", "filesystem.read")),
        ({"workspace": "/etc"}, {"workspace": "empty"}, ("'/etc' is not allowed", "workspace = 'empty'")),
        ({"workspace": "/etc"}, {"workspace": "/srv"}, ("'/etc' is not allowed",)),
        ({"workspace": "/etc", "access": "write"}, {"write": []}, ("to be written", "filesystem.write = []")),
        ({"workspace": "/srv/a", "write": ["/srv"]}, {"access": "copy"}, ("lies in a path of 'write'",)),
    ],
)
def test_ceiling_path_outside_names_both_values(policy, ceiling, words):
    (found,) = refused({"filesystem": policy}, {"filesystem": ceiling})
    assert all(word in found for word in (*words, "(ceiling c)"))


@pytest.mark.parametrize(
    ("policy", "ceiling", "word"),
    [
        ({"environment": {"inherit": ["HOME", "LANG"]}}, {"environment": {"inherit": ["LANG"]}}, "'HOME' is not allowed"),
        ({"limits": {"soft_memory": "100MiB"}}, {"limits": {"memory": "64MiB"}}, "must be below limits.memory, 64 MiB"),
        ({"security": {"capabilities": ["CAP_NET_BIND_SERVICE"]}}, {"security": {"capabilities": []}}, "is not allowed"),
        ({"commands": {"allow": ["git *"]}}, {"commands": {"allow": ["git log *"]}}, "'git *' is not allowed"),
        ({"security": {"host_uid": 6}}, {"security": {"host_uid": 5}}, "6 is not allowed"),
        ({"security": FILTER}, {"security": {"syscalls": "tight"}}, "the ceiling has security.syscalls = 'tight'"),
        ({"security": FILTER}, {"security": {"syscalls_file": "/g.json"}}, "the ceiling has security.syscalls_file = '/g.json'"),
        ({"security": {**FILTER, "syscalls_mode": "replace"}}, {"security": FILTER}, "'replace' is not allowed"),
        ({}, {"environment": {"set": {"A": "1"}}}, "restricts nothing"),
    ],
)  # fmt: skip
def test_ceiling_value_not_named_is_refused(policy, ceiling, word):
    (found,) = refused(policy, ceiling)
    assert word in found


def test_ceiling_raises_the_floor_of_a_network_it_changes():
    ceiling = {"network": {"allow": []}, "accept": {"network": "kernel"}}
    found, changed = lowered({"network": "host"}, ceiling)
    assert (found.floor("network"), changed) == (Strength.KERNEL, ("network", "accept"))


def test_ceiling_refusals_are_reported_at_once():
    policy = {"filesystem": {"read": ["/etc"]}, "environment": {"inherit": ["HOME"]}, "limits": {"memory": "1GiB"}}
    ceiling = {"filesystem": {"read": []}, "environment": {"inherit": []}, "limits": {"memory": "64MiB"}}
    assert len(refused(policy, ceiling)) == 2


def test_ceiling_unset_fields_do_not_bound():
    assert of(Policy(limits={"memory": "64MiB"}, network="none"), "c").fields == {
        "limits.memory": 2**26,
        "network": "none",
    }
    assert of(Policy.parse({"isolation": None, "filesystem": {"access": None}}), "c").fields == {}
    everything = Policy.parse(Policy().model_dump())
    assert set(of(everything, "c").fields) == {path for path in RULES if not RULES[path].optional}


def test_ceiling_isolation_keeps_untrusted_default():
    ceiling = of(Policy(isolation="namespaces"), "c")
    assert under(Policy(), ceiling, "untrusted")[0].isolation is None
    assert under(Policy(), ceiling, "semi-trusted")[0].isolation == "namespaces"
    assert under(Policy(isolation="process"), ceiling, "untrusted")[0].isolation == "namespaces"
