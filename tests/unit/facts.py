"""Hosts that do not exist, for pure functions."""

from dataclasses import replace

from stockade.planning.facts import HostFacts

SYSTEM = (("/usr", ""), ("/bin", "usr/bin"), ("/etc/ld.so.cache", ""))

ROOT_V1 = HostFacts(
    kernel="6.18.0",
    machine="x86_64",
    cpus=2,
    uid=0,
    namespaces=True,
    privileged=True,
    cgroups={"memory": 1, "swap": 1, "sockets": 1, "kernel": 1, "pids": 1, "cpu": 1, "cpuacct": 1},
    landlock=7,
    seccomp=True,
    system=SYSTEM,
)
ROOT_V2 = replace(ROOT_V1, cgroups={"memory": 2, "swap": 2, "sockets": 2, "kernel": 2, "pids": 2, "cpu": 2})
USER = replace(
    ROOT_V1,
    uid=1000,
    privileged=False,
    cgroups={},
    cgroup_lost={"memory": "cgroup v2 at /x: Permission denied"},
    groups=2,
)
OLD_USER = replace(USER, kernel="5.10.0-8-amd64", swap=True)
NOTHING = replace(USER, namespaces=False, namespace_reasons={"user": "clone: Operation not permitted"})
