"""The facilities of this host, one a line: a pure function over the facts of the probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stockade.backends.native.namespaces import way_to_open
from stockade.cli import remedies
from stockade.languages.base import Interpreter
from stockade.planning.facts import HostFacts

_NAMESPACES = {
    "pid": "hides the host's processes, and ends everything with the run",
    "mount": "a root of its own with only the chosen files",
    "network": "a network with only a loopback of its own; network.allow adds a proxy",
    "ipc": "hides the host's shared memory and message queues",
    "uts": "a host name of its own",
    "cgroup": "hides the host's control groups",
}
_CONTROLLERS = {
    "memory": "bounds the memory of the whole tree, and reports when it ran out",
    "pids": "bounds the processes of the run, and reports when the limit was met",
    "cpu": "cpu_rate",
    "cpuacct": "counts CPU time of the whole tree, with children that were not waited for",
    "io": "io_read",
    "swap": "bounds the swap of each run",
}


@dataclass(frozen=True)
class Facility:
    """A facility that a host may offer."""

    name: str
    there: bool
    evidence: str
    gives: str
    get: str
    """The command or setting that provides it; empty if the facility is there."""


def facilities(
    facts: HostFacts, languages: Mapping[str, Interpreter | str], *, names: str = "", authorities: str = ""
) -> list[Facility]:
    """Return every facility that stockade uses. ``languages`` maps each to its interpreter, or why it has none.

    ``names`` is what answers look-ups of names, and ``authorities`` is where certificates of authorities are; both are
    empty on a host without.
    """
    return [
        *_namespaces(facts),
        *(_cgroup(name, gives, facts) for name, gives in _CONTROLLERS.items()),
        _root(facts),
        _swap(facts),
        _landlock(facts),
        _seccomp(facts),
        _groups(facts),
        _way_out(facts),
        _names(names),
        _authorities(authorities),
        *(_language(name, found) for name, found in languages.items()),
    ]


def _namespaces(facts: HostFacts) -> list[Facility]:
    get = "" if facts.namespaces else way_to_open(facts)
    how = "made as root" if facts.privileged else "made inside a user namespace"
    reasons = facts.namespace_reasons
    alone = [name for name in _NAMESPACES if name in reasons]
    # Each kind was tried alone in a user namespace of its own. If one works, the user namespace works too.
    user = facts.namespaces or (not facts.privileged and facts.uid != 0 and len(alone) < len(_NAMESPACES))
    return [
        Facility(
            "user namespace",
            user,
            "made" if user else reasons.get("user", "not tried"),
            "its root has no rights outside; every ordinary user needs it",
            "" if user else get,
        ),
        *(
            Facility(
                f"{name} namespace", name not in alone, reasons.get(name, how), gives, get if name in alone else ""
            )
            for name, gives in _NAMESPACES.items()
        ),
        Facility(
            "all of them, with a new root and /proc",
            facts.namespaces,
            "; ".join(f"{name}: {reasons[name]}" for name in ("root", "user") if name in reasons) or how,
            "the native backend",
            get,
        ),
    ]


def _cgroup(name: str, gives: str, facts: HostFacts) -> Facility:
    there = name in facts.cgroups or (name == "cpuacct" and facts.counts_cpu)
    held_by = name if name in facts.cgroups else "cpu"
    if there:
        evidence = f"cgroup v{facts.cgroups[held_by]} at {facts.cgroup_paths[held_by]}"
    elif name == "swap" and "memory" in facts.cgroups:
        evidence = f"{facts.cgroup_paths['memory']} has no swap counter"
    else:
        evidence = facts.cgroup_lost.get("memory" if name == "swap" else name, "this controller is not mounted here")
    return Facility(f"cgroup {name}", there, evidence, gives, "" if there else remedies.cgroup(name, facts))


def _root(facts: HostFacts) -> Facility:
    return Facility(
        "started by root",
        facts.uid == 0,
        f"uid {facts.uid}",
        "a host uid for each run, and control groups without delegation",
        "" if facts.uid == 0 else "sudo stockade ...",
    )


def _swap(facts: HostFacts) -> Facility:
    return Facility(
        "no swap on this host",
        not facts.swap,
        "/proc/swaps lists swap" if facts.swap else "/proc/swaps is empty",
        "swap=0 holds without a control group",
        "sudo swapoff -a" if facts.swap else "",
    )


def _landlock(facts: HostFacts) -> Facility:
    return Facility(
        "Landlock",
        facts.landlock > 0,
        f"ABI {facts.landlock}" if facts.landlock > 0 else "landlock_create_ruleset is refused",
        "file and socket rules that a process cannot undo",
        ""
        if facts.landlock > 0
        else "Linux 5.13 or newer, booted with landlock in lsm= (see /sys/kernel/security/lsm)",
    )


def _seccomp(facts: HostFacts) -> Facility:
    return Facility(
        "seccomp",
        facts.seccomp,
        "a filter was loaded" if facts.seccomp else "the kernel refused to load a filter",
        "a filter on system calls",
        ""
        if facts.seccomp
        else "a kernel built with CONFIG_SECCOMP_FILTER=y, and no outer filter that refuses seccomp(2)",
    )


def _groups(facts: HostFacts) -> Facility:
    shed = facts.privileged
    gone = shed or not facts.groups
    count = f"{facts.groups} of the caller's" if facts.groups else "the caller has none"
    return Facility(
        "no supplementary groups",
        gone,
        count + (", dropped by root" if shed and facts.groups else ""),
        "the guest cannot read what these groups may read",
        "" if gone else 'sudo setpriv --reuid "$(id -u)" --regid "$(id -g)" --clear-groups stockade ...',
    )


def _way_out(facts: HostFacts) -> Facility:
    walls = [
        name
        for name, there in (("seccomp", facts.seccomp), (f"Landlock ABI {facts.landlock}", facts.landlock))
        if there
    ]
    return Facility(
        "bounded way out",
        facts.namespaces,
        f"the native backend; its proxy runs under {', '.join(walls) or 'no filter of its own'}"
        if facts.namespaces
        else "only the native backend has one, and it cannot be used here",
        "network.allow, --allow: the targets of a list, through a proxy for each run",
        "" if facts.namespaces else way_to_open(facts),
    )


def _names(found: str) -> Facility:
    return Facility(
        "names for the way out",
        bool(found),
        found or "/etc/resolv.conf has no nameserver, and /etc/hosts no address",
        "names in network.allow; without them, only addresses can be listed",
        "" if found else "a nameserver in /etc/resolv.conf",
    )


def _authorities(found: str) -> Facility:
    return Facility(
        "authorities for secrets",
        bool(found),
        found or "no certificate of an authority was found",
        "--secret, secrets=: the proxy verifies each server",
        "" if found else "sudo apt install ca-certificates",
    )


def _language(name: str, found: Interpreter | str) -> Facility:
    gives = f"runs {name} source"
    if isinstance(found, str):
        why, _, get = found.partition("; ")
        return Facility(f"language {name}", False, why, gives, get.removeprefix("install it: "))
    needs = f", {found.own_tasks} tasks of its own" if found.own_tasks > 1 else ""
    return Facility(f"language {name}", True, f"{found.executable} {found.release}".rstrip() + needs, gives, "")
