"""Finds an OCI runtime of the host, and tries it once with a container like those of runs."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING

from stockade.backends.base import Availability, lacking, unusable
from stockade.backends.oci.bundle import BUNDLE, COPY_FOLDER, FILTER, NAMESPACES, READ_ONLY
from stockade.core.strict_json import dumps
from stockade.planning import engines

if TYPE_CHECKING:
    from stockade.planning.engines import Engine

NAME = "crun"
_OLDEST = "1.0"
_NEEDED = ("--root", "--log", "--log-format", "--cgroup-manager")
_ALLOW_ALL = base64.b64encode(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)).decode()  # BPF_RET, SECCOMP_RET_ALLOW
_UID = 1000
_MAPPING = [{"containerID": _UID, "hostID": 0, "size": 1}]
_CHECK = (
    "grep -q '^CapBnd:.0*$' /proc/self/status || { echo 'the runtime left capabilities' >&2; exit 1; }; "
    "grep -q '^NoNewPrivs:.1' /proc/self/status || { echo 'the runtime left new privileges open' >&2; exit 1; }; "
    "grep -q '^Seccomp:.2' /proc/self/status || { echo 'the runtime loaded no filter' >&2; exit 1; }; "
    f"test $(id -u) = {_UID} || {{ echo 'the runtime set another uid' >&2; exit 1; }}"
)
_CONFIG = dumps(
    {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "user": {"uid": _UID, "gid": _UID},
            "cwd": "/",
            "args": ["/bin/sh", "-c", _CHECK],
            "env": ["PATH=/usr/bin:/bin"],
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["ro"]},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["ro"]},
            *(
                {"destination": path, "type": "bind", "source": path, "options": READ_ONLY}
                for path in ("/usr", "/bin", "/lib", "/lib64")
            ),
        ],
        "linux": {
            "uidMappings": _MAPPING,
            "gidMappings": _MAPPING,
            "namespaces": [{"type": name} for name in (*NAMESPACES, "network")],
        },
        "annotations": {FILTER: _ALLOW_ALL},
    }
)
_SCRIPT = (
    f'mount -t tmpfs tmpfs {BUNDLE} && cd {BUNDLE} && mkdir rootfs && printf %s "$1" > config.json && '
    f"export {' '.join(f'{name}={value}' for name, value in COPY_FOLDER.items())}; "
    'exec "$0" --root=state --cgroup-manager=disabled run --no-new-keyring trial'
)
_THROUGH = ("/usr/bin/unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", _SCRIPT)


def look() -> Engine:
    """Return the runtime, as an ordinary user tried it in namespaces of that user's own."""
    return engines.look(NAME, (_CONFIG,), through=_THROUGH)


def availability(engine: Engine) -> Availability:
    """Return whether the runtime is installed, has what the backend needs, and works."""
    if found := lacking(engine, _NEEDED, NAME, _OLDEST):
        return found
    if engine.trouble:
        return unusable(" ".join(engine.trouble.split()), "see: stockade doctor, and docs/backends/oci.md")
    return Availability(usable=True)
