"""The default profile as data: what a field that nobody set means."""

from __future__ import annotations

from typing import Final

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
"""Bytes, seconds, cores or counts; ``None`` is ``"unlimited"``, which only this table and a caller may say."""

DEFAULT_HIDDEN: Final = (
    ".env", ".env.*", ".envrc", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".ssh", ".gnupg", ".aws", ".azure",
    ".config/gcloud", ".kube", ".docker/config.json", "id_rsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx",
    "*.kdbx", "credentials.json", "secrets.*", ".terraform", "terraform.tfstate*",
)  # fmt: skip
"""What lies in projects and is nobody's business: fnmatch(3) patterns, of a name at any depth or of a whole path."""

DEFAULT_ACCEPT: Final[dict[str, str]] = {
    "memory": "supervisor",  # hosts without a memory cgroup: every process bounded, the tree sampled
    "swap": "absent",  # without a memory cgroup nothing bounds swap on a host that has some
}
"""Where the default profile is content with less than the usual floor."""
