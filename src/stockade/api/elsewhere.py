"""Places beyond the backends of this machine that run whole jobs: a service, for example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stockade.api.options import overlaid
from stockade.core.errors import JobError

if TYPE_CHECKING:
    from stockade.policy.model import Policy, PolicyLike
    from stockade.runs.events import OnWarning
    from stockade.runs.job import Job
    from stockade.runs.result import Result


class Elsewhere(ABC):
    """A place that plans and runs jobs itself. ``run`` and ``run_command`` take one as their ``backend``."""

    @abstractmethod
    def run_job(self, job: Job, policy: Policy, on_warning: OnWarning | None) -> Result:
        """Run a job and return its verdict.

        Raises ``JobError`` or ``PolicyError`` before anything is sent, if a field of either cannot go there.
        """


def run_elsewhere(
    place: Elsewhere,
    job: Job,
    policy: PolicyLike | None,
    limits: Mapping[str, Any],
    on_warning: OnWarning | None,
    **own: Any,
) -> Result:
    """Run a job there. ``own`` are options that concern runs of this machine. Raises ``JobError`` if one is set."""
    for name, value in own.items():
        if value is not None and value != ():
            raise JobError(f"{name} is for runs on this machine: leave it out, or leave out backend={place!r}")
    return place.run_job(job, overlaid(policy, limits), on_warning)
