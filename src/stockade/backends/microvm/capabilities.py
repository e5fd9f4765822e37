"""The enforcement of each guarantee in a machine: by its own kernel, and by the sandbox around QEMU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stockade.backends.native.capabilities import capabilities as native
from stockade.core.units import format_size
from stockade.policy.guarantees import Enforcement, Guarantee, Strength

if TYPE_CHECKING:
    from stockade.backends.microvm.image import Image
    from stockade.planning.facts import HostFacts
    from stockade.policy.model import Policy

_SUPERVISOR = Strength.SUPERVISOR
_BY_THE_HOST = (
    Guarantee.FILESYSTEM_READ, Guarantee.FILESYSTEM_WRITE, Guarantee.NETWORK, Guarantee.PROCESS_VIEW, Guarantee.IPC,
    Guarantee.PRIVILEGES, Guarantee.SYSCALLS,
)  # fmt: skip
_EMULATED = (
    "the processor is emulated (TCG), not virtualized (KVM): programs run many times slower, and QEMU's authors do not "
    "vouch for the emulator as a wall, so the native sandbox stands around it"
)


def capabilities(facts: HostFacts, policy: Policy, image: Image) -> dict[Guarantee, Enforcement]:
    """Return the enforcement of each guarantee. Without an image, it is that of the sandbox around QEMU alone."""
    around = native(facts)
    if image.facts is None:
        return around
    kernel = f"Linux {image.kernel} in QEMU {image.version}"
    found = {}
    for guarantee, held in native(image.facts).items():
        if held.strength is Strength.ABSENT:
            found[guarantee] = held
        elif guarantee in _BY_THE_HOST:
            both = min(held.strength, around[guarantee].strength, key=list(Strength).index)
            mechanism = f"{kernel}: {held.mechanism}; around QEMU: {around[guarantee].mechanism}"
            found[guarantee] = Enforcement(mechanism, both, _EMULATED)
        else:
            found[guarantee] = replace(held, mechanism=f"{kernel}: {held.mechanism}")
    return found | {
        Guarantee.NETWORK: replace(found[Guarantee.NETWORK], mechanism=f"no network device; {_around(around)}"),
        Guarantee.MEMORY: _memory(found[Guarantee.MEMORY], around[Guarantee.MEMORY], policy, image),
        Guarantee.WALL_TIME: replace(
            around[Guarantee.WALL_TIME], note="killed within 50 ms; the machine's start counts"
        ),
        Guarantee.CPU_TIME: replace(
            around[Guarantee.CPU_TIME], note="of the whole machine: its start and the emulation count"
        ),
        Guarantee.OUTPUT: around[Guarantee.OUTPUT],
        Guarantee.NO_SURVIVORS: Enforcement(
            f"the machine ends; {around[Guarantee.NO_SURVIVORS].mechanism}", around[Guarantee.NO_SURVIVORS].strength
        ),
    }


def _around(around: dict[Guarantee, Enforcement]) -> str:
    return f"around QEMU: {around[Guarantee.NETWORK].mechanism}"


def _memory(inside: Enforcement, around: Enforcement, policy: Policy, image: Image) -> Enforcement:
    wanted = policy.limits.figure(Guarantee.MEMORY)
    if wanted is not None and wanted > image.free:
        return Enforcement.absent(
            f"the machine has {format_size(image.free)} for guests; build a larger one "
            f"(stockade images build microvm --memory MIB), or set a lower limit"
        )
    whole = format_size(image.most_memory)
    return Enforcement(
        inside.mechanism,
        inside.strength,
        f"{inside.note}; the machine has {image.memory} MiB, and the whole of QEMU takes at most {whole} of the host "
        f"({around.mechanism})",
    )
