"""Finds runsc on the host, and tries it once with a container like those of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.backends.base import Availability, lacking, unusable
from stockade.backends.oci.bundle import BUNDLE
from stockade.core.strict_json import dumps
from stockade.planning import engines

if TYPE_CHECKING:
    from stockade.planning.engines import Engine

NAME = "runsc"
OPTIONS = ("--rootless", "--platform=ptrace", "--network=none", "--ignore-cgroups")
"""ptrace works wherever a process may trace its children. No control group of the warden's is touched."""
IN_NAMESPACES = ("/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--net")
"""Without root's rights, runsc makes no PID namespace for gVisor's kernel. And it takes commands by an abstract socket,
which would be in the host's network, under one name for all runs."""
_SECONDS = 10.0
"""gVisor takes half a second to start, and most of one to end."""
_KINDS = ("pid", "ipc", "uts", "mount", "network")
_CONFIG = dumps(
    {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "user": {"uid": 1000, "gid": 1000},
            "cwd": "/",
            "args": ["/bin/sh", "-c", "grep -q '^CapEff:.0*$' /proc/self/status"],
            "env": ["PATH=/usr/bin:/bin"],
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["ro"]},
            *(
                {"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro", "nosuid", "nodev"]}
                for path in ("/usr", "/bin", "/lib", "/lib64")
            ),
        ],
        "linux": {"namespaces": [{"type": kind} for kind in _KINDS]},
    }
)
_SCRIPT = (
    f'mount -t tmpfs tmpfs {BUNDLE} && cd {BUNDLE} && mkdir rootfs && printf %s "$1" > config.json && '
    f'exec {" ".join(IN_NAMESPACES)} "$0" --root=state {" ".join(OPTIONS)} run trial'
)
_THROUGH = ("/usr/bin/unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", _SCRIPT)


def look() -> Engine:
    """Return runsc, as an ordinary user tried it in namespaces of that user's own."""
    return engines.look(NAME, (_CONFIG,), through=_THROUGH, seconds=_SECONDS)


def availability(engine: Engine) -> Availability:
    """Return whether runsc is installed and works."""
    if found := lacking(engine, (), NAME, "0.0"):
        return found
    if engine.trouble:
        return unusable(" ".join(engine.trouble.split()), "see: stockade doctor, and docs/backends/gvisor.md")
    return Availability(usable=True)
