"""The settings of a service: plain data, which the server hands to its worker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

MIB: Final = 1 << 20
DEFAULT_CEILING: Final[Mapping[str, Any]] = {
    "limits": {
        "cpu_time": "5min",
        "wall_time": "5min",
        "memory": "1GiB",
        "processes": 64,
        "open_files": 1024,
        "file_size": "256MiB",
        "disk": "256MiB",
        "output": "4MiB",
    },
    "network": "none",
}
"""The most that a request may ask for. The operator's ceiling replaces it, field by field."""


@dataclass(frozen=True)
class Settings:
    """The choices of the operator. Sizes are bytes and times are seconds."""

    data: Path
    jobs: int = 2
    """Runs at a time."""
    policy: Mapping[str, Any] = field(default_factory=dict)
    """The policy of every run, on which a request may set limits."""
    ceiling: Mapping[str, Any] = field(default_factory=lambda: DEFAULT_CEILING)
    backend: str | None = None
    trust: str = "semi-trusted"
    audit: str | None = None
    """The file of an audit log."""
    queued_runs: int = 10_000
    queued_runs_of_a_key: int = 1_000
    queued_bytes: int = 1024 * MIB
    body_bytes: int = 8 * MIB
    sandboxes: int = 50
    """Living sandboxes that may be open."""
    sandboxes_of_a_key: int = 10
    sandbox_lifetime: float = 3_600.0
    """The most seconds that a living sandbox may ask for."""
    keep: float = 86_400.0
    """How long finished runs are kept."""
    kept_bytes: int = 4096 * MIB
    attempts: int = 3
    """How often a run is begun, if its worker dies each time."""
    lease: float = 30.0
    """Seconds without a heartbeat after which a lease ends."""

    def dump(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(asdict(self) | {"data": str(self.data)})

    @classmethod
    def load(cls, text: str) -> Settings:
        """Return the settings of which ``dump`` made ``text``."""
        fields = json.loads(text)
        return cls(**fields | {"data": Path(fields["data"])})


def ceiling_from(file: Path) -> Mapping[str, Any]:
    """Return the built-in ceiling with the fields of ``file`` on top. Raises ``PolicyError`` for an invalid file."""
    from stockade.policy.merge import Layer, merge

    fields = fields_from(file)
    return merge([Layer("service", DEFAULT_CEILING), Layer(str(file), fields)]).data()


def fields_from(file: Path) -> Mapping[str, Any]:
    """Return the fields that a policy file sets. Raises ``PolicyError`` if the file or a field is invalid."""
    from stockade.policy.model import Policy

    return Policy.load(file).model_dump(mode="json", exclude_unset=True)
