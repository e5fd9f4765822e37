"""Plan the mechanism that holds each guarantee of a policy, and check that it is strong enough. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from stockade.core.dataclass import dataclass
from stockade.core.errors import PlanError
from stockade.core.frozen import FrozenDict
from stockade.policy import capabilities as _capabilities
from stockade.policy.guarantees import LIMITS, Enforcement, Guarantee, Isolation, Strength

if TYPE_CHECKING:
    from stockade.planning.facts import HostFacts
    from stockade.policy.model import Policy


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy that this host can hold: the backend, and the enforcement of each guarantee."""

    backend: str
    policy: Policy
    facts: HostFacts
    enforcement: Mapping[Guarantee, Enforcement]
    isolation: Isolation = Isolation.NAMESPACES
    own_filter: bytes | None = None
    """The content of ``security.syscalls_file``. Later changes of the file do not change the plan."""
    closes_sockets: bool = False
    """Whether the guest can create no Unix socket except pairs, because the host's own files are shown."""
    maps_one_id: bool = False
    """Whether the guest's user namespace maps no id except ``security.uid``."""


def plan(
    policy: Policy,
    facts: HostFacts,
    backend: str,
    capabilities: Mapping[Guarantee, Enforcement],
    *,
    own_filter: bytes | None = None,
    isolation: Isolation = Isolation.NAMESPACES,
    cannot_keep: str = "",
    maps_one_id: bool = False,
    bounds_network: bool = False,
    meters_scripts: bool = False,
    refused: Mapping[str, str] = FrozenDict(),
) -> Plan:
    """Return the plan for ``policy``, from the ``capabilities`` of ``backend`` on this host.

    ``own_filter`` is the content of the policy's ``security.syscalls_file``. ``cannot_keep`` is the reason why the
    backend cannot keep any of the policy's ``security.capabilities``, or empty. ``maps_one_id``: see ``Plan``.
    ``bounds_network``: the backend gives a guest no way out but the launch's proxy. ``meters_scripts``: it holds the
    caps of ``policy.languages``. ``refused`` holds the fields of the policy that the backend cannot honour, with the
    reasons. Raises ``PlanError`` with a sentence for each of them, and for every requested guarantee that is not held
    strongly enough.
    """
    enforcement = {}
    missing = dict(refused)
    closes = policy.filesystem.shows_host and policy.filesystem.sockets == "closed"
    for guarantee in Guarantee:
        if not policy.asks(guarantee):
            enforcement[guarantee] = Enforcement.absent(_not_asked(guarantee))
            continue
        held = _slowed(guarantee, _under_policy(guarantee, capabilities[guarantee], policy, facts), policy, facts)
        if guarantee is Guarantee.IPC and policy.filesystem.shows_host:
            held = _beside_sockets(held, policy, filtered=capabilities[Guarantee.SYSCALLS].strength)
        floor = policy.floor(guarantee)
        enforcement[guarantee] = held
        if not held.strength.holds(floor):
            missing[guarantee.value] = _shortfall(guarantee, held, floor)
    unbounded = unbounded_network(policy, bounds_network=bounds_network)
    missing |= {"network": unbounded} if unbounded else {}
    unkept = _unkept(policy, cannot_keep)
    if unkept:
        missing["security.capabilities"] = unkept
    if not meters_scripts:
        missing |= {f"languages.{name}": "only backend='metered' bounds it" for name in policy.languages.caps}
    if missing:
        raise PlanError(backend, missing)
    return _known(Plan(backend, policy, facts, FrozenDict(enforcement), isolation, own_filter, closes, maps_one_id))


def _known(made: Plan) -> Plan:
    """Return an equal, earlier plan of the same policy, if there is one.

    Results computed from a plan are cached with the plan object, so the sandboxes of a program should share it.
    """
    global _recent
    for each in _recent:
        if each.policy is made.policy and each.facts is made.facts and _decided(each) == _decided(made):
            return each
    _recent = (made, *_recent[: _RECENT - 1])
    return made


def _decided(made: Plan) -> tuple[object, ...]:
    return made.backend, made.isolation, made.own_filter, made.enforcement, made.closes_sockets, made.maps_one_id


_RECENT = 8
_recent: tuple[Plan, ...] = ()


def _unkept(policy: Policy, cannot_keep: str) -> str:
    """Return why the capabilities of ``policy`` cannot be kept; an empty text if they can."""
    security = policy.security
    if not security.capabilities:
        return ""
    if policy.network == "host":
        why = "with network='host', the ports would be the host's"
    elif security.syscalls == "tight" and security.syscalls_file is None:
        why = "security.syscalls='tight' refuses every socket that has ports"
    else:
        why = cannot_keep
    return f"{', '.join(security.capabilities)} cannot be kept: {why}" if why else ""


def unbounded_network(policy: Policy, *, bounds_network: bool) -> str:
    """Return why the way out of ``policy`` cannot be given; an empty text if it can, or if the policy has none.

    No accepted strength helps: the guest must not get the host's network in its place.
    """
    if policy.way_out is None:
        return ""
    if not bounds_network:
        return "this backend cannot bound a network to network.allow; use native, network='none' or network='host'"
    if policy.security.syscalls == "tight" and policy.security.syscalls_file is None:
        return "security.syscalls='tight' refuses every socket that leads to the proxy; use 'standard'"
    return ""


def _through_proxy(held: Enforcement, policy: Policy, facts: HostFacts) -> Enforcement:
    """Return the enforcement of a network whose only way out is a proxy: the proxy decides, a supervisor."""
    if held.strength is Strength.ABSENT:
        return held
    walls = ", ".join(name for name, there in (("seccomp", facts.seccomp), ("Landlock", facts.landlock)) if there)
    note = f"no route; a proxy{f' under {walls}' if walls else ''} lets through {policy.network}"
    hidden = "what a server does inside TLS stays unseen, so a content network may serve other names of its own"
    return Enforcement(f"{held.mechanism}, proxy", Strength.SUPERVISOR, f"{note}; {hidden}")


@lru_cache(maxsize=64)
def plan_for_job(plan: Plan, kind: str, *, counts: bool, shows_host: bool = False) -> Plan:
    """Return the plan for a job of this ``kind``.

    Only some jobs have an agent that counts operations (``counts``). A job may also show files of the host that the
    policy does not name (``shows_host``). ``kind`` is a word for the message. Raises ``PlanError`` if the job weakens a
    guarantee below the policy's floor.
    """
    if shows_host and not plan.policy.filesystem.shows_host:
        plan = _with_sockets(plan)
    if counts or not plan.policy.asks(Guarantee.OPERATIONS):
        return plan
    held = Enforcement.absent(f"nothing counts the operations of {kind}: only Python and Ruby source is counted")
    floor = plan.policy.floor(Guarantee.OPERATIONS)
    if not held.strength.holds(floor):
        raise PlanError(plan.backend, {Guarantee.OPERATIONS.value: _shortfall(Guarantee.OPERATIONS, held, floor)})
    return replace(plan, enforcement=FrozenDict({**plan.enforcement, Guarantee.OPERATIONS: held}))


def _with_sockets(plan: Plan) -> Plan:
    """Return the plan for a job that itself shows files of the host."""
    policy, filtered = plan.policy, plan.enforcement[Guarantee.SYSCALLS].strength
    held = _beside_sockets(plan.enforcement[Guarantee.IPC], policy, filtered=filtered)
    floor = policy.floor(Guarantee.IPC)
    if not held.strength.holds(floor):
        raise PlanError(plan.backend, {Guarantee.IPC.value: _shortfall(Guarantee.IPC, held, floor)})
    enforcement = FrozenDict({**plan.enforcement, Guarantee.IPC: held})
    return replace(plan, enforcement=enforcement, closes_sockets=policy.filesystem.sockets == "closed")


def _beside_sockets(held: Enforcement, policy: Policy, *, filtered: Strength) -> Enforcement:
    """Return the enforcement of IPC if the host's own files are shown, since a socket may lie among them."""
    if policy.filesystem.sockets == "open":
        return Enforcement.absent(
            "filesystem.sockets='open': the guest can reach Unix sockets in shown folders, as far as their "
            "permissions go"
        )
    if filtered is Strength.ABSENT:
        return Enforcement.absent(
            "no filter can be loaded here, so the guest can reach Unix sockets in shown folders, as far as their "
            "permissions go"
        )
    if held.strength is Strength.ABSENT:
        return held
    mechanism = held.mechanism if "seccomp" in held.mechanism else f"{held.mechanism}, seccomp filter"
    note = "the guest can create no Unix socket except pairs, since files of the host are shown"
    return Enforcement(mechanism, held.strength, f"{held.note}; {note}" if held.note else note)


def _not_asked(guarantee: Guarantee) -> str:
    if guarantee is Guarantee.NETWORK:
        return "the policy gives the host's network: services on its loopback and cloud metadata addresses are in reach"
    return "not asked for: unlimited"


def _under_policy(guarantee: Guarantee, held: Enforcement, policy: Policy, facts: HostFacts) -> Enforcement:
    """Return the enforcement, weakened by whatever this policy opens."""
    if guarantee is Guarantee.DISK and policy.filesystem.writable:
        return Enforcement.absent(
            f"nothing bounds writes below {', '.join(policy.filesystem.writable)}; "
            f"{held.mechanism} bounds the folders that the sandbox creates"
        )
    if guarantee is Guarantee.FILESYSTEM_WRITE and _leaves_pipes(held, policy):
        note = "the guest can write to named pipes in shown folders, if their modes allow it and the host reads"
        return Enforcement(held.mechanism, held.strength, "; ".join(filter(None, (held.note, note))))
    if guarantee is Guarantee.PRIVILEGES:
        kept = (f"{name}: {_capabilities.KEPT[name]}" for name in policy.security.capabilities)
        held = _noting(held, *kept, _shared_account(policy))
    if guarantee is Guarantee.NETWORK and policy.way_out is not None:
        held = _through_proxy(held, policy, facts)
    if guarantee in _IN_HOST_NETWORK and policy.network == "host":
        before = [held.note] if guarantee is Guarantee.MEMORY else []
        return Enforcement(held.mechanism, held.strength, "; ".join((*before, _IN_HOST_NETWORK[guarantee])))
    if policy.security.syscalls_file is not None and held.strength is not Strength.ABSENT:
        return _under_own_filter(guarantee, held, policy)
    return held


def _leaves_pipes(held: Enforcement, policy: Policy) -> bool:
    """Return whether the guest may write to a named pipe of the host in a folder that it should only read.

    A read-only mount refuses neither such a write nor a connection to a socket. Landlock refuses the write, except
    below paths that the guest may write to.
    """
    if held.strength is Strength.ABSENT or not policy.filesystem.shows_host:
        return False
    files = policy.filesystem
    return "Landlock" not in held.mechanism or any(
        path.startswith(("/tmp/", "/dev/shm/", "/workspace/")) for path in (*files.read, files.workspace)
    )


_IN_HOST_NETWORK = {
    Guarantee.IPC: "abstract Unix sockets belong to the network, which is the host's",
    Guarantee.MEMORY: "in the host's network, nothing counts the memory of netlink sockets and of connections that "
    "no process has accepted: at worst net.core.rmem_max and tcp_rmem of each",
}
"""Gaps of a guarantee if the guest uses the host's network."""


def _slowed(guarantee: Guarantee, held: Enforcement, policy: Policy, facts: HostFacts) -> Enforcement:
    """Return the enforcement with the effects of a read rate: on paths that it does not reach, and on wall time."""
    if guarantee is Guarantee.IO_READ and held.strength is not Strength.ABSENT:
        files = policy.filesystem
        shown = {*files.read, *files.write, files.workspace, *(path for path, _ in facts.system)}
        beyond = sorted(path for path in shown for place in facts.off_disk if _overlap(path, place))
        if beyond:
            return Enforcement.absent(
                f"{', '.join(beyond)} is, or contains a mount, on no disk that can be slowed down"
            )
    if guarantee is Guarantee.WALL_TIME and policy.asks(Guarantee.IO_READ):
        note = "; a pending read from a disk must finish first, at full speed"
        return Enforcement(held.mechanism, held.strength, held.note + note)
    return held


def _overlap(path: str, place: str) -> bool:
    return place == "/" or f"{path}/".startswith(f"{place}/") or f"{place}/".startswith(f"{path}/")


def _under_own_filter(guarantee: Guarantee, held: Enforcement, policy: Policy) -> Enforcement:
    """Return the enforcement with the custom filter's file, and with notes on guarantees that stockade's filters
    support.
    """
    path, replaces = policy.security.syscalls_file, policy.security.syscalls_mode == "replace"
    if guarantee is Guarantee.SYSCALLS:
        how = "alone" if replaces else f"in addition to {policy.security.syscalls!r}"
        return Enforcement(
            f"{held.mechanism} of {path}, {how}", held.strength, "in the file's state when the plan was made"
        )
    return _noting(held, _HELPED[guarantee]) if replaces and guarantee in _HELPED else held


def _shared_account(policy: Policy) -> str:
    uid = policy.security.host_uid
    return "" if uid is None else f"the kernel's counts for each account include all other processes of uid {uid}"


def _noting(held: Enforcement, *notes: str) -> Enforcement:
    return Enforcement(held.mechanism, held.strength, "; ".join(filter(None, (held.note, *notes))))


_SLOWED = (
    "if the policy's own filter allows scheduling of other processes, a guest may slow down its own init, and its end"
)
_HELPED = {
    Guarantee.WALL_TIME: _SLOWED,
    Guarantee.CPU_TIME: _SLOWED,
    Guarantee.NETWORK: "the guest can reach VM sockets, if the host has them and the policy's own filter allows them",
    Guarantee.PRIVILEGES: "if the policy's own filter allows a limit of 0 on core files, a crash starts "
    "the handler that kernel.core_pattern pipes to",
    Guarantee.PROCESS_VIEW: "if the policy's own filter allows prlimit64 for other processes, a guest may lower "
    "its own init's limits, which ends the run",
}
"""Protections of other guarantees by stockade's filters. A file in their place may lack them."""


def _shortfall(guarantee: Guarantee, held: Enforcement, floor: Strength) -> str:
    have = "nothing holds it" if held.strength is Strength.ABSENT else f"{held.mechanism} is {held.strength} only"
    accept_less = f"or accept less: accept={{{guarantee.value!r}: {held.strength.value!r}}}"
    lift = f", or lift it: limits={{{guarantee.value!r}: 'unlimited'}}" if guarantee in LIMITS else ""
    return f"{have}, {floor} is asked for ({held.note or 'no better mechanism here'}); {accept_less}{lift}"
