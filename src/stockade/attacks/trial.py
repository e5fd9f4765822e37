"""The trial of one attack: the control run, which must succeed, then the confined run, which must be refused."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from stockade.attacks import confined, control, needs, policies, warm
from stockade.attacks.corpus import Attack
from stockade.attacks.half import Half
from stockade.attacks.internet import trials
from stockade.backends.base import Backend, planned
from stockade.client import warden_process

_controls: dict[str, Half] = {}
"""Results of control runs, by the attack's id. One control run serves for all backends."""
_OF_THE_ANSWER = ("read by the warden, judged by the caller", "supervisor")


class Verdict(StrEnum):
    """The finding of a trial."""

    REFUSED = "refused"
    UNPROVED = "refused, with no control to prove it"
    ADMITTED = "not held, as the receipt says"
    OTHERWISE = "no success, but not the expected refusal either"
    SUCCEEDED = "the attack succeeded"
    NOT_RUN = "not run"

    @property
    def fails(self) -> bool:
        """Whether a guarantee that the receipt claims was not shown to hold."""
        return self in {Verdict.OTHERWISE, Verdict.SUCCEEDED}


@dataclass(frozen=True)
class Trial:
    """An attack on one backend, its control run and its confined run, and the mechanism under attack."""

    attack: str
    guarantee: str
    backend: str
    control: Half | None
    confined: Half | None
    mechanism: str = ""
    strength: str = ""
    reason: str = ""
    """Why the attack was not run."""
    seconds: float = 0.0
    attempts: int = 1

    @property
    def verdict(self) -> Verdict:
        """The finding, from the two halves."""
        if self.confined is None:
            return Verdict.NOT_RUN
        if self.confined.admitted:
            return Verdict.ADMITTED
        if not self.confined.good:
            return Verdict.SUCCEEDED if self.confined.succeeded else Verdict.OTHERWISE
        return Verdict.REFUSED if self.control is not None else Verdict.UNPROVED

    @property
    def lacks_proof(self) -> bool:
        """Whether the confined run was left out because the control run did not succeed."""
        return self.control is not None and not self.control.good

    def as_json(self) -> dict[str, Any]:
        """Return the trial as JSON-compatible data."""
        return asdict(self) | {"verdict": self.verdict.name.lower()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trial:
        """Return the trial from the data of ``as_json``."""
        halves = {name: Half(**data[name]) if data[name] else None for name in ("control", "confined")}
        return cls(**{key: value for key, value in data.items() if key != "verdict"} | halves)


def attempt(
    attack: Attack,
    backend: str | Backend = "native",
    *,
    base: Mapping[str, Any] | None = None,
    controls: bool = True,
) -> Trial:
    """Try ``attack`` on ``backend``, or in a warm interpreter (``warm.NAME``). The attack's policy overrides ``base``.

    If the control run does not succeed, the confined run would prove nothing and is left out. Without ``controls``,
    only the confined run takes place, and the verdict says that it has no proof.
    """
    found, is_warm = warm.meant(backend)
    begin = time.monotonic()
    fields: dict[str, Any] = {
        "attack": attack.id,
        "guarantee": attack.guarantee,
        "backend": warm.NAME if is_warm else found.name,
    }
    lacking = needs.why_not(attack.needs) or (warm.why_not(attack) if is_warm else "")
    if lacking:
        return Trial(**fields, control=None, confined=None, reason=lacking)
    control_half = None
    try:
        fields |= _held(attack, found, base)
        if trials.STAGE in attack.stage and not trials.inside:
            order = {"path": str(attack.path), "backends": [found.name], "base": dict(base or {}), "controls": controls}
            return Trial.from_json(trials.attempt(order))
        control_half = _control(attack) if controls else None
        if control_half is not None and not control_half.good:
            reason = f"the control did not succeed here: {control_half.what}"
            return Trial(**fields, control=control_half, confined=None, reason=reason)
        confined_half = confined.run(attack, found, base, is_warm=is_warm)
    except Exception as error:  # a fault of stockade or of the host: the trial proves nothing
        return Trial(**fields, control=control_half, confined=None, reason=f"{type(error).__name__}: {error}")
    return Trial(**fields, control=control_half, confined=confined_half, seconds=time.monotonic() - begin)


def _control(attack: Attack) -> Half:
    if attack.id not in _controls:
        _controls[attack.id] = control.run(attack)
    return _controls[attack.id]


def _held(attack: Attack, backend: Backend, base: Mapping[str, Any] | None) -> dict[str, str]:
    plan = planned(backend, policies.attacked(attack.policy, base), warden_process.host_facts())
    held = confined.mechanism(attack, plan)
    mechanism, strength = (held.mechanism, held.strength.value) if held else _OF_THE_ANSWER
    return {"mechanism": mechanism, "strength": strength}
