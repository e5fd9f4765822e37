"""Find a process that stands still: a stop signal holds it, or a freezer of control groups does.

The state of a frozen process does not show that: it is ``D`` under a freezer of v1, and ``S`` under one of v2.
"""

from __future__ import annotations

from stockade.linux import descendants, files

_STOPPED = "was stopped by a signal from outside"
_FROZEN = "was frozen from outside, with its control group"
_mounted: list[tuple[str, str, str]] | None = None
"""Kind, root and path of each mounted hierarchy that can freeze. A process reads the list once."""


def reason(pid: int) -> str:
    """Return why the process ``pid`` cannot go on, as "was ...", or an empty text.

    A process that a debugger holds does not count.
    """
    state = descendants.state(pid)
    if state == "T":
        return _STOPPED
    return _FROZEN if state in ("S", "D") and any(_frozen(pid)) else ""


def survives_kill(pid: int) -> bool:
    """Return whether a freezer of v1 holds the process ``pid``: then it dies of SIGKILL only when it is thawed."""
    return "cgroup" in _frozen(pid)


def _frozen(pid: int) -> list[str]:
    """Return the kinds of the hierarchies that have frozen the process."""
    own = {}
    for line in files.read(f"/proc/{pid}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if names == "" or "freezer" in names.split(","):
            own["cgroup" if names else "cgroup2"] = path
    found = []
    for kind, root, mountpoint in _hierarchies():
        path = own.get(kind, "")
        if not path or not (root in ("/", path) or path.startswith(f"{root}/")):
            continue
        folder = mountpoint + path[0 if root == "/" else len(root) :]
        if kind == "cgroup2":
            is_frozen = "frozen 1" in files.read(f"{folder}/cgroup.events").splitlines()
        else:
            is_frozen = files.read(f"{folder}/freezer.state").strip() in ("FROZEN", "FREEZING")
        if is_frozen:
            found.append(kind)
    return found


def _hierarchies() -> list[tuple[str, str, str]]:
    global _mounted
    if _mounted is None:
        _mounted = []
        for line in files.read("/proc/self/mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            fields, (kind, _, options) = left.split(), right.split()[:3]
            if kind == "cgroup2" or (kind == "cgroup" and "freezer" in options.split(",")):
                _mounted.append((kind, files.unescape(fields[3]), files.unescape(fields[4]).rstrip("/")))
    return _mounted
