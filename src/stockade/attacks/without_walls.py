"""A run on a host that offers no isolation at all. The run must be refused before anything starts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stockade.api import select
from stockade.api.launcher import concluded, open_exchange
from stockade.attacks.half import Half
from stockade.backends.bubblewrap.backend import Bubblewrap
from stockade.backends.oci.backend import Oci
from stockade.client import blocking, warden_process
from stockade.core.errors import StockadeError
from stockade.planning import engines
from stockade.policy.model import Policy
from stockade.runs.result import Outcome

if TYPE_CHECKING:
    from stockade.backends.base import Backend
    from stockade.runs.job import Job

_NOTHING = {
    "namespaces": False,
    "namespace_reasons": {"user": "closed"},
    "landlock": 0,
    "seccomp": False,
    "cgroups": {},
}


def run(backend: Backend, job: Job) -> Half:
    """Try to run ``job`` under the default policy, which accepts no missing guarantee."""
    poor = replace(warden_process.host_facts(), **_NOTHING)  # type: ignore[arg-type]
    if isinstance(backend, Bubblewrap):
        backend = Bubblewrap(engine=engines.Engine(trouble="bwrap cannot be executed"))
    if isinstance(backend, Oci):
        backend = Oci(engine=engines.Engine(trouble="crun cannot be executed"))
    try:
        chosen = select.named(backend, Policy(), poor, None)
        with open_exchange(backend, chosen.plan, job) as (send_queue, connection):
            for _ in blocking.events(send_queue, connection, job.stdin):
                pass
        result = concluded(send_queue)
    except StockadeError as error:
        return Half(good=True, what=f"not started: {error}")
    started = result.outcome is not Outcome.SANDBOX_FAILED
    return Half(good=False, what=f"expected 'not started': {result.summary()}", succeeded=started)
