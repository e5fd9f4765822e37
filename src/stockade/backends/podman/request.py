"""Puts docker's request for a container into the words of podman's own interface.

Podman accepts docker's requests too, but only in part: it drops the cgroup namespace, the read-only /proc and the flags
of mounts. Its own format is that of https://docs.podman.io/en/v4.3/_static/api.html (ContainerCreateLibpod).
"""

from __future__ import annotations

import json
from typing import Any

from stockade.core.errors import JobError
from stockade.core.launch import FILTER_FILE, ContainerOrder
from stockade.core.strict_json import dumps

_PERIOD = 100_000  # of CFS bandwidth, in microseconds
_MOST_TASKS = 1 << 15
"""The kernel's own bound on a small host, above which podman's service cannot go there."""
_LEAST_FILES = 64
_PROC = {
    "destination": "/proc",
    "type": "proc",
    "source": "proc",
    "options": ["nosuid", "nodev", "noexec", "ro"],
}
"""With /proc read-only, a guest cannot lower its own oom_score_adj."""
_HOSTS, _HOSTS_PATH = "hosts", "/etc/hosts"
_OWN_NAMES = "127.0.0.1\tlocalhost {name}\n::1\tlocalhost\n"
"""Podman's own file of names has those of the host, and an address of the host."""
_OWN_VARIABLES = ("TERM", "container")


def adapted(order: ContainerOrder, tasks: int) -> ContainerOrder:
    """Return the order for podman. ``tasks`` is the hard limit on the caller's tasks, or a negative number.

    Raises ``JobError`` for a security option that podman lacks.
    """
    body: dict[str, Any] = json.loads(order.create)
    host = body["HostConfig"]
    security, files = _security(host["SecurityOpt"])
    mounts = _mounts(host)
    if host["NetworkMode"] == "none" and all(each["destination"] != _HOSTS_PATH for each in mounts):
        files[_HOSTS] = (_OWN_NAMES.format(name=body["Hostname"]).encode(), 0o644)
        mounts.append(_bind(_HOSTS, _HOSTS_PATH, "ro"))
    fields = {
        "image": body["Image"],
        "entrypoint": body["Entrypoint"],
        "unsetenv": _OWN_VARIABLES,
        "user": body["User"],
        "work_dir": body["WorkingDir"],
        "hostname": body["Hostname"],
        "hostadd": host["ExtraHosts"] if host["NetworkMode"] == "host" else [],
        "netns": {"nsmode": host["NetworkMode"]},
        "ipcns": {"nsmode": host["IpcMode"]},
        "cgroupns": {"nsmode": host["CgroupnsMode"]},
        "read_only_filesystem": host["ReadonlyRootfs"],
        "read_write_tmpfs": False,  # or newer ones mount a writable /run and /var/tmp of any size
        "cap_drop": host["CapDrop"],
        "log_configuration": {"driver": "none"},
        "healthconfig": body["Healthcheck"],
        "image_volume_mode": "ignore",
        "stop_timeout": 0,  # or removing a living container waits ten seconds
        "mounts": mounts,
        "r_limits": _rlimits(host["Ulimits"], tasks),
        "resource_limits": _resources(host),
        **security,
    }
    update = json.loads(order.update)["PidsLimit"] if order.update else 0
    return order.adding(
        interface="podman",
        create=dumps(fields, compact=True).encode(),
        update=dumps({"pids": {"limit": update}}, compact=True).encode() if update else b"",
        files={**order.files, **files},
    )


def _security(options: list[str]) -> tuple[dict[str, Any], dict[str, tuple[bytes, int]]]:
    """Return the fields for security options, and the file with the filter, of which podman takes the path."""
    fields: dict[str, Any] = {}
    files = {}
    for option in options:
        name, _, value = option.partition("=")
        if option == "no-new-privileges:true":
            fields["no_new_privileges"] = True
        elif name == "seccomp" and value.startswith("{"):
            files[FILTER_FILE] = (value.encode(), 0o600)
            fields["seccomp_profile_path"] = FILTER_FILE
        elif name == "seccomp":
            fields["seccomp_profile_path"] = value
        elif name == "apparmor":
            fields["apparmor_profile"] = value
        elif name == "label":
            fields.setdefault("selinux_opts", []).append(value)
        else:
            raise JobError(f"security_opt: {option!r}: the podman backend knows apparmor=, label= and seccomp= only")
    return fields, files


def _mounts(host: dict[str, Any]) -> list[dict[str, Any]]:
    found = [_PROC]
    for folder, options in host["Tmpfs"].items():
        found.append({"destination": folder, "type": "tmpfs", "source": "tmpfs", "options": _scratch(options)})
    for each in host["Mounts"]:
        found.append(_bind(each["Source"], each["Target"], "ro" if each["ReadOnly"] else "rw"))
    return found


def _bind(source: str, target: str, access: str) -> dict[str, Any]:
    options = ["rbind", access, "nosuid", "nodev", "rprivate"]
    return {"destination": target, "type": "bind", "source": source, "options": options}


def _scratch(options: str) -> list[str]:
    """Return the options of a writable folder.

    Podman has a list of options that it knows, and passes on the value of ``size`` as it is. The kernel splits it.
    """
    flags = [each for each in options.split(",") if "=" not in each]
    return [*flags, "notmpcopyup", ",".join(each for each in options.split(",") if "=" in each)]


def _rlimits(ulimits: list[dict[str, Any]], tasks: int) -> list[dict[str, Any]]:
    """Return the resource limits, always with those for which podman has defaults.

    The defaults are high, and podman cannot set them where the hard limits of its service are lower.
    """
    lacking = {"nofile": _LEAST_FILES, "nproc": _MOST_TASKS if tasks < 0 else min(tasks, _MOST_TASKS)}
    found = {name: (most, most) for name, most in lacking.items()}
    found |= {each["Name"]: (each["Soft"], each["Hard"]) for each in ulimits}
    return [{"type": name, "soft": soft, "hard": hard} for name, (soft, hard) in sorted(found.items())]


def _resources(host: dict[str, Any]) -> dict[str, Any]:
    names = {"Memory": "limit", "MemorySwap": "swap", "MemoryReservation": "reservation"}
    found: dict[str, Any] = {"memory": {mine: host[name] for name, mine in names.items() if name in host}}
    if "NanoCpus" in host:
        found["cpu"] = {"period": _PERIOD, "quota": host["NanoCpus"] * _PERIOD // 1_000_000_000}
    if "PidsLimit" in host:
        found["pids"] = {"limit": host["PidsLimit"]}
    return found
