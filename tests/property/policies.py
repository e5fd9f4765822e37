"""Random policies and layers, and a definition of "no looser than" that is independent of the code's."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from stockade import Guarantee, Policy, Strength
from stockade.core.targets import allows, parse
from stockade.policy.ceiling import value_of
from stockade.policy.commands import covers
from stockade.policy.merge import Layer, nested
from stockade.policy.parts.network import PACKAGES
from stockade.policy.rules import RULES

UNLIMITED = "unlimited"
_TARGETS = [
    "a.example.org:443",
    "*.example.org:443",
    "x.example.org:443",
    "*.a.example.org:443",
    "b.a.example.org:443",
    "10.0.0.1:80",
]
_PATHS = ["/srv", "/srv/a", "/srv/a/b", "/srvx", "/data", "/opt/x"]


def _lists(*items: str) -> Any:
    return st.lists(st.sampled_from(items), max_size=3, unique=True)


def _figures(*figures: float) -> Any:
    return st.sampled_from([*figures, UNLIMITED])


VALUES: dict[str, Any] = {
    "limits.cpu_time": _figures(0.5, 30.0, 100.0),
    "limits.cpu_rate": _figures(0.25, 1.0, 4.0),
    "limits.wall_time": _figures(0.5, 60.0, 100.0),
    "limits.memory": _figures(2**23, 2**28, 2**30),
    "limits.swap": _figures(0, 2**20),
    "limits.processes": _figures(1, 10, 500),
    "limits.open_files": _figures(4, 256, 1000),
    "limits.file_size": _figures(0, 2**20, 2**30),
    "limits.disk": _figures(2**16, 2**26, 2**30),
    "limits.output": _figures(0, 2**16, 2**24),
    "limits.operations": _figures(1, 10_000),
    "limits.stack": _figures(2**16, 2**23, 2**25),
    "limits.soft_memory": _figures(2**20, 2**22),
    "limits.address_space": _figures(2**24, 2**32),
    "limits.data": _figures(2**22, 2**30),
    "limits.io_read": _figures(2**16, 2**20),
    "filesystem.read": _lists(*_PATHS),
    "filesystem.write": _lists(*_PATHS),
    # Not one of the paths to write: a policy may not forbid writing to a workspace that is such a path.
    "filesystem.workspace": st.sampled_from(["empty", "/srv/w", "/srv/w/b", "/srvx/w", "/data/w"]),
    "filesystem.access": st.sampled_from(["read", "overlay", "copy", "write"]),
    "filesystem.protected": _lists(".git", "a/b"),
    "filesystem.hidden": _lists("*.pem", ".env"),
    "filesystem.sockets": st.sampled_from(["closed", "open"]),
    "network": st.one_of(st.sampled_from(["none", "host"]), st.fixed_dictionaries({"allow": _lists(*_TARGETS)}, optional={"requests": _figures(1, 50), "packages": st.booleans(), "secret_hosts": _lists(*_TARGETS)})),
    "environment.inherit": _lists("LANG", "HOME", "TERM"),
    "environment.set": st.dictionaries(st.sampled_from(["A", "B_2"]), st.sampled_from(["1", 'x "y"\n', ""])),
    "security.capabilities": _lists("CAP_NET_BIND_SERVICE"),
    "security.uid": st.sampled_from([0, 1000, 2000]),
    "security.host_uid": st.sampled_from([5000, 6000]),
    "security.syscalls": st.sampled_from(["tight", "standard", "permissive"]),
    "security.syscalls_file": st.sampled_from(["/etc/f.json", "/etc/g.json"]),
    "security.syscalls_mode": st.just("add"),
    "security.explain_denials": st.booleans(),
    "security.read_only_root": st.booleans(),
    "security.no_new_privileges": st.just(True),
    "languages.regexp_timeout": _figures(0.5, 2.0),
    "languages.heap_objects": _figures(1, 1000),
    "languages.frames": _figures(1, 1000),
    "languages.symbols": _figures(1, 1000),
    "languages.value_bytes": _figures(1, 2**20),
    "languages.older_ruby": st.sampled_from(["refuse", "run"]),
    "commands.allow": _lists("git *", "git log *", "git log", "ls"),
    "commands.refuse": _lists("rm *", "git push"),
    "isolation": st.sampled_from(["process", "namespaces", "user_kernel", "wasm", "own_kernel"]),
    "on_output": st.sampled_from(["truncate", "kill"]),
    "accept": st.dictionaries(st.sampled_from([str(g) for g in Guarantee]), st.sampled_from([str(s) for s in Strength])),
}  # fmt: skip
"""Field to values that make sense in it."""


@st.composite
def fields(draw: Any, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a strategy for some fields of a policy, nested as in a file."""
    chosen = draw(
        st.lists(st.sampled_from([path for path in RULES if path not in leave_out]), max_size=10, unique=True)
    )
    made: dict[str, Any] = {}
    for path in chosen:
        deepen(made, nested(path, draw(VALUES[path])))
    return made


def without_targets() -> Any:
    """Return a strategy for fields without a table of targets, which no environment variable can hold."""
    return fields().filter(lambda values: not isinstance(values.get("network"), dict))


def deepen(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            deepen(into[name], value)
        else:
            into[name] = value


def layers() -> Any:
    """Return a strategy for layers with distinct names."""
    return st.lists(fields(), max_size=4).map(lambda all_: [Layer(f"layer {n}", each) for n, each in enumerate(all_)])


def policies() -> Any:
    return fields().map(Policy.parse)


def ceilings() -> Any:
    return fields(leave_out=("environment.set",)).map(Policy.parse)


def _looser_network(ours: Any, most: Any, _policy: Policy) -> bool:
    """Return whether ``most`` refuses a target that ``ours`` allows, for itself or for secrets, or a figure is larger."""
    if isinstance(ours, str) or isinstance(most, str):
        return _rank(ours) > _rank(most)
    tried = [parse(each.replace("*", "x")) for each in (*_TARGETS, *PACKAGES, "example.org:443", "pypi.org:80")]
    open_ones = [
        {target for target in tried if any(allows(pattern, target) for pattern in each.targets)}
        for each in (ours, most)
    ]
    trusted = [
        {target for target in each_open if each.takes_secrets(target)}
        for each, each_open in zip((ours, most), open_ones, strict=True)
    ]
    mine, bound = (float("inf") if each.requests == UNLIMITED else each.requests for each in (ours, most))
    return not open_ones[0] <= open_ones[1] or not trusted[0] <= trusted[1] or mine > bound


def _rank(network: Any) -> int:
    return {"none": 0, "host": 2}.get(network, 1) if isinstance(network, str) else 1


def looser(path: str, ours: Any, most: Any, policy: Policy) -> bool:
    """Return whether ``ours`` opens more than ``most``, by an order for each field that is not the code's."""
    if path.startswith("limits.") or (path.startswith("languages.") and path not in _ORDERS):
        return (float("inf") if ours == UNLIMITED else ours) > (float("inf") if most == UNLIMITED else most)
    if path in _ORDERS:
        order = _ORDERS[path]
        return order.index(ours or order[-1] if path == "isolation" else ours) > order.index(most)
    return _LOOSER[path](ours, most, policy)


_ORDERS = {
    "security.syscalls": ["tight", "standard", "permissive"],
    "security.explain_denials": [False, True],
    "languages.older_ruby": ["refuse", "run"],
    "security.read_only_root": [True, False],
    "security.no_new_privileges": [True, False],
    "on_output": ["kill", "truncate"],
    "isolation": ["own_kernel", "wasm", "user_kernel", "namespaces", "process"],
}
_STRENGTHS = list(Strength)


def _below(path: str, folders: Any) -> bool:
    return any((path + "/").startswith(folder + "/") for folder in folders)


def effective_access(policy: Policy) -> int:
    """Return the access to the workspace: 0 for reads, 1 for separate writes, 2 for direct writes."""
    files = policy.filesystem
    if _below(files.workspace, files.write):
        return 2
    word = files.access or ("write" if files.workspace == "empty" else "read")
    return {"read": 0, "overlay": 1, "copy": 1, "write": 2}[word]


_LOOSER: dict[str, Any] = {
    "filesystem.read": lambda ours, most, policy: False,  # with the other paths, in readable_outside()
    "filesystem.write": lambda ours, most, policy: not all(_below(path, most) for path in ours),
    "filesystem.workspace": lambda ours, most, policy: ours != "empty" and not _below(ours, [most]),
    "filesystem.access": lambda ours, most, policy: (
        effective_access(policy) > {"read": 0, "overlay": 1, "copy": 1, "write": 2}[most]
    ),
    "filesystem.protected": lambda ours, most, policy: not set(most) <= set(ours),
    "filesystem.hidden": lambda ours, most, policy: not set(most) <= set(ours),
    "filesystem.sockets": lambda ours, most, policy: ours == "open" and most == "closed",
    "network": _looser_network,
    "environment.inherit": lambda ours, most, policy: not set(ours) <= set(most),
    "environment.set": lambda ours, most, policy: False,
    "security.capabilities": lambda ours, most, policy: not set(ours) <= set(most),
    "security.uid": lambda ours, most, policy: ours != most,
    "security.host_uid": lambda ours, most, policy: ours not in (None, most),
    "security.syscalls_file": lambda ours, most, policy: ours not in (None, most),
    "security.syscalls_mode": lambda ours, most, policy: policy.security.syscalls_file is not None and ours != most,
    "commands.allow": lambda ours, most, policy: (
        most is not None and (ours is None or any(not any(covers(wide, each) for wide in most) for each in ours))
    ),
    "commands.refuse": lambda ours, most, policy: not set(most) <= set(ours),
    "accept": lambda ours, most, policy: any(
        _STRENGTHS.index(policy.floor(Guarantee(key))) < _STRENGTHS.index(Strength(most[key])) for key in most
    ),
}


def readable_outside(policy: Policy, ceiling: dict[str, Any]) -> list[str]:
    """Return the host paths that the guest may read and the ceiling's paths do not cover."""
    if "filesystem.read" not in ceiling:
        return []
    workspace = ceiling.get("filesystem.workspace", "empty")
    named = [*ceiling["filesystem.read"], *ceiling.get("filesystem.write", ())]
    named += [] if workspace == "empty" else [workspace]
    files = policy.filesystem
    read = [*files.read, *files.write, *([] if files.workspace == "empty" else [files.workspace])]
    return [path for path in read if not _below(path, named)]


def writable_outside(policy: Policy, ceiling: dict[str, Any]) -> list[str]:
    """Return the host paths that the guest may write and the ceiling's paths for writing do not cover."""
    if "filesystem.write" not in ceiling:
        return []
    named = list(ceiling["filesystem.write"])
    if ceiling.get("filesystem.access") == "write" and "filesystem.workspace" in ceiling:
        named.append(ceiling["filesystem.workspace"])
    files = policy.filesystem
    bound = files.workspace != "empty" and effective_access(policy) == 2
    return [path for path in [*files.write, *([files.workspace] if bound else [])] if not _below(path, named)]


def all_fields(policy: Policy) -> dict[str, Any]:
    return {path: value_of(policy, path) for path in RULES}
