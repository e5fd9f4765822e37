"""The profiles as data. The default profile gives the value of every field that is not set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from stockade.core.dataclass import dataclass
from stockade.core.errors import FieldProblem, PolicyError, nearest
from stockade.core.units import UNLIMITED

MIB: Final = 1024 * 1024

DEFAULT_LIMITS: Final[dict[str, int | float | None]] = {
    "cpu_time": 30.0,
    "cpu_rate": None,
    "wall_time": 60.0,
    "memory": 256 * MIB,
    "swap": 0,
    "processes": 10,
    "open_files": 256,
    "file_size": 64 * MIB,
    "disk": 64 * MIB,
    "output": 64 * 1024,
    "operations": None,
    "stack": 8 * MIB,
}
"""Bytes, seconds, cores or counts; ``None`` is ``"unlimited"``. Only this table and a caller may lift a limit."""

DEFAULT_HIDDEN: Final = (
    ".env", ".env.*", ".envrc", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".ssh", ".gnupg", ".aws", ".azure",
    ".config/gcloud", ".kube", ".docker/config.json", "id_rsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx",
    "*.kdbx", "credentials.json", "secrets.*", ".terraform", "terraform.tfstate*",
)  # fmt: skip
"""Private files that projects often contain: fnmatch(3) patterns of a name at any depth, or of a whole path."""

DEFAULT_ACCEPT: Final[dict[str, str]] = {
    "memory": "supervisor",  # without a memory cgroup, every process is bounded and the tree is sampled
    "swap": "absent",  # without a memory cgroup, nothing bounds swap on a host that has some
}
"""Guarantees for which every profile accepts less than the usual floor."""


@dataclass(frozen=True)
class Profile:
    """A named policy: its fields, and notes on them. A field that it leaves out is the default profile's."""

    about: str
    fields: Mapping[str, Any]
    notes: Mapping[str, str] = field(default_factory=dict)
    """Notes by field, for a host that may hold less than the figure, or for a field with an unexpected effect."""


_NOTES = {
    "limits.memory": "if no control group counts memory, a sampled total of the tree is enough",
    "limits.swap": "if no control group counts memory, the limit may be absent on a host that has swap",
}
_CPU_RATE = {"limits.cpu_rate": "if no control group bounds it, the limit may be absent; cpu_time still holds"}
_ISOLATION = {"isolation": "also makes namespaces enough for code that runs with trust='untrusted'"}
_BOUND = {
    "limits.disk": "writes to the project itself may be unbounded, since the project is real; the limit holds for "
    "all other places",
    "filesystem.workspace": "the current folder at the time when the profile is loaded",
}
_KEPT = {
    "limits.disk": "a copy, which backends other than native make of the project, may be unbounded on disk",
    "filesystem.workspace": _BOUND["filesystem.workspace"],
    "filesystem.access": "changes are dropped at the end, unless 'stockade run --commit' or result.changes keeps them",
}
_PACKAGES = {
    "filesystem.protected": "packages go into the project (.venv, node_modules); the guest sees none of your caches"
}

_SMALL = {"regexp_timeout": 1, "older_ruby": "run"}
_LARGE = {"regexp_timeout": 10, "older_ruby": "run"}
"""Seconds for one match in Ruby 3.2 or newer."""

PROFILES: Final[dict[str, Profile]] = {
    "default": Profile(
        "the values of all fields that are not set",
        {
            "limits": {name: UNLIMITED if figure is None else figure for name, figure in DEFAULT_LIMITS.items()},
            "filesystem": {"hidden": DEFAULT_HIDDEN},
        },
        _NOTES,
    ),
    "strict": Profile(
        "a short answer from unknown code",
        {
            "limits": {
                "memory": "64MiB", "cpu_time": 5, "wall_time": 10, "processes": 1, "open_files": 64,
                "operations": UNLIMITED, "output": "64KiB",
            },
            "filesystem": {"access": "read"},
            "isolation": "namespaces",
            "languages": _SMALL,
            "on_output": "kill",
        },
        _NOTES | _ISOLATION,
    ),
    "conservative": Profile(
        "small programs of a language model, with a limit on operations",
        {
            "limits": {
                "memory": "128MiB", "cpu_rate": 0.5, "wall_time": 5, "processes": 5, "open_files": 100,
                "operations": 10_000, "output": "64KiB",
            },
            "filesystem": {"access": "read"},
            "isolation": "namespaces",
            "languages": _SMALL,
            "on_output": "kill",
            "accept": {"cpu_rate": "absent"},
        },
        _NOTES | _CPU_RATE | _ISOLATION,
    ),
    "moderate": Profile(
        "programs that compute and write files",
        {
            "limits": {
                "memory": "256MiB", "cpu_rate": 1, "wall_time": 30, "processes": 10, "open_files": 200,
                "operations": 50_000, "output": "1MiB",
            },
            "isolation": "namespaces",
            "languages": _SMALL,
            "on_output": "truncate",
            "accept": {"cpu_rate": "absent"},
        },
        _NOTES | _CPU_RATE | _ISOLATION,
    ),
    "generous": Profile(
        "programs that also use the network",
        {
            "limits": {
                "memory": "512MiB", "cpu_rate": 2, "wall_time": 60, "processes": 20, "open_files": 500,
                "operations": 100_000, "output": "1MiB",
            },
            "network": "host",
            "languages": _LARGE,
            "on_output": "truncate",
            "accept": {"cpu_rate": "absent"},
        },
        _NOTES | _CPU_RATE,
    ),
    "dev": Profile(
        "work on the project in the current folder: edit, install packages, commit",
        {
            "limits": {
                "memory": "1GiB", "cpu_time": UNLIMITED, "wall_time": "5min", "processes": 256, "open_files": 1024,
                "operations": UNLIMITED, "output": "16MiB",
            },
            "filesystem": {"workspace": ".", "access": "write", "protected": (".git/hooks", ".git/config")},
            "network": "host",
            "languages": _LARGE,
            "on_output": "truncate",
            "accept": {"disk": "absent"},
        },
        _NOTES | _BOUND | _PACKAGES,
    ),
    "build": Profile(
        "build the project in the current folder, without a network",
        {
            "limits": {
                "memory": "2GiB", "cpu_time": UNLIMITED, "wall_time": "5min", "processes": 256, "open_files": 1024,
                "operations": UNLIMITED, "output": "16MiB",
            },
            "filesystem": {"workspace": ".", "access": "write", "protected": (".git",)},
            "network": "none",
            "languages": _LARGE,
            "on_output": "truncate",
            "accept": {"disk": "absent"},
        },
        _NOTES | _BOUND,
    ),
    "test": Profile(
        "run the tests of the project in the current folder, without a network and without changing it",
        {
            "limits": {
                "memory": "1GiB", "cpu_time": UNLIMITED, "wall_time": "10min", "processes": 256, "open_files": 1024,
                "operations": UNLIMITED, "output": "16MiB", "disk": "512MiB",
            },
            "filesystem": {"workspace": ".", "access": "overlay", "protected": (".git",)},
            "network": "none",
            "languages": _LARGE,
            "on_output": "truncate",
            "accept": {"disk": "absent"},
        },
        _NOTES | _KEPT,
    ),
}  # fmt: skip
"""Plain data. Nothing is looked up before a profile is loaded, not even the current folder."""


def find(name: str) -> Profile:
    """Return the profile ``name``. Raise ``PolicyError`` if its name is unknown."""
    if name in PROFILES:
        return PROFILES[name]
    if name.endswith((".toml", ".json")):
        raise PolicyError([FieldProblem("profile", repr(name), "a text names a profile; Policy.load reads a file")])
    near = nearest(name, PROFILES)
    hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(PROFILES)}"
    raise PolicyError([FieldProblem("profile", repr(name), f"there is no such profile; {hint}")])


def unreadable(path: str, error: Exception) -> PolicyError:
    """Return the error for a policy's file that cannot be read. Its name may be meant for a profile's."""
    near = nearest(path, PROFILES) if isinstance(error, FileNotFoundError) else ""
    hint = f"; the profile {near!r} is --profile {near}, or policy={near!r} in Python" if near else ""
    why = getattr(error, "strerror", None) or error
    return PolicyError([FieldProblem("policy", path, f"cannot be read: {why}{hint}")])
