"""Why a host refuses namespaces, and how to allow them: pure functions of the host facts."""

from __future__ import annotations

from stockade.planning.facts import HostFacts

_OPEN_VALUES = {
    "user.max_user_namespaces": "15000",
    "kernel.unprivileged_userns_clone": "1",
    "kernel.apparmor_restrict_unprivileged_userns": "0",
}
_SHOWN = 3
_CONTAINER = "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined --user 65534"
"""With a user other than root: to the kernel, root in a container is the host's root, and its guests would be, too."""
_APPARMOR = "where the engine loads an AppArmor profile also --security-opt apparmor=unconfined"


def why_closed(facts: HostFacts) -> str:
    """Return why a run cannot have namespaces, with the step that the kernel refused."""
    reasons = facts.namespace_reasons
    refused = reasons.get("user") or "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    if _lacks_proc(facts):
        return (
            f"namespaces can be made here, but no fresh /proc can be mounted in them ({_last(refused)}): parts of this "
            f"/proc are covered ({_some(facts.covered)}), and a guest is never shown the outer one"
        )
    if _is_root_without_rights(facts):
        return f"{refused.removeprefix('step identity: ')}; this root lacks capabilities ({reasons.get('root', '')})"
    settings = _closed_settings(facts)
    if settings:
        return f"user namespaces are closed here by {', '.join(settings)} ({refused})"
    around = ", as in a container: a system-call filter is around this program" if facts.filtered else ""
    return f"namespaces cannot be made here ({refused}){around}"


def way_to_open(facts: HostFacts) -> str:
    """Return the command or the setting that allows namespaces."""
    settings = _closed_settings(facts)
    if settings and not _lacks_proc(facts) and not _is_root_without_rights(facts):
        return "sudo sysctl -w " + " ".join(settings[name] for name in settings)
    if facts.filtered or facts.covered:
        return f"in a container: {_CONTAINER} ({_APPARMOR})"
    if _is_root_without_rights(facts):
        return (
            f"start it as an ordinary user (in a container: {_CONTAINER}), or give root CAP_SYS_ADMIN and CAP_NET_ADMIN"
        )
    return (
        "allow unprivileged user namespaces (sysctl user.max_user_namespaces), leave a chroot or an outer sandbox, or "
        f"run as root; in a container: {_CONTAINER} ({_APPARMOR})"
    )


def _lacks_proc(facts: HostFacts) -> bool:
    return bool(facts.covered) and facts.namespace_reasons.get("user", "").startswith("step proc ")


def _is_root_without_rights(facts: HostFacts) -> bool:
    return facts.namespace_reasons.get("user", "").startswith("step identity: the guest would be")


def _closed_settings(facts: HostFacts) -> dict[str, str]:
    """Return each setting that forbids user namespaces, with the ``NAME=VALUE`` that allows them."""
    return {
        name: f"{name}={_OPEN_VALUES[name]}"
        for name, value in facts.settings.items()
        if (value not in ("", "0") if name.startswith("kernel.apparmor_restrict") else value == "0")
    }


def _last(reason: str) -> str:
    return reason.rpartition(": ")[2]


def _some(places: tuple[str, ...]) -> str:
    more = len(places) - _SHOWN
    return ", ".join(places[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
