"""The figures of a policy in a readable form."""

from __future__ import annotations

from stockade.core.units import format_size
from stockade.policy.guarantees import LIMITS, Guarantee
from stockade.policy.model import Policy

SIZES = (
    Guarantee.MEMORY, Guarantee.SWAP, Guarantee.FILE_SIZE, Guarantee.DISK, Guarantee.OUTPUT, Guarantee.STACK,
    Guarantee.ADDRESS_SPACE, Guarantee.DATA, Guarantee.IO_READ,
)  # fmt: skip
"""The limits that count bytes."""
_UNITS = {
    Guarantee.CPU_TIME: " s", Guarantee.WALL_TIME: " s", Guarantee.CPU_RATE: " cores",
    Guarantee.IO_READ: "/s",
}  # fmt: skip


def asked(policy: Policy, guarantee: Guarantee) -> str:
    """Return the figure that the policy sets for a guarantee, in a readable form."""
    if guarantee is Guarantee.NETWORK:
        return str(policy.network)
    if guarantee not in LIMITS:
        return ""
    figure = policy.limits.figure(guarantee)
    if figure is None:
        return "unlimited"
    if guarantee is Guarantee.MEMORY and policy.limits.soft is not None:
        return f"{format_size(figure)}, soft {format_size(policy.limits.soft)}"
    number = format_size(figure) if guarantee in SIZES else f"{figure:.10g}"
    return number + _UNITS.get(guarantee, "")
