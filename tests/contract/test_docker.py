"""The docker backend under the conformance suite and the forty programs, with a daemon of the tests' own.

``make docker`` runs the whole suite. Otherwise the parts run of which this backend has code of its own: outcomes and receipts.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

import stockade
from stockade.backends.docker.backend import Docker
from stockade.testing import BackendContract
from stockade.testing.outcomes import OutcomesContract
from stockade.testing.receipts import ReceiptsContract
from tests.contract.test_programs import PROGRAMS, QUICK
from tests.support.docker_engine import IMAGE

if TYPE_CHECKING:
    from tests.support.docker_engine import Daemon

WHOLE = bool(os.environ.get("STOCKADE_WHOLE"))
PARTS: Any = (BackendContract,) if WHOLE else (OutcomesContract, ReceiptsContract)
AT_ONCE = 4
# A shell reports a death by signal as 128 plus the signal's number.
DIFFERENT = {"exit 137": ("crashed", None, 9, None, "")}


class InContainer:
    """Tests of what a container of an engine cannot do, or does in another way."""

    brings_programs = True
    slows_reads = False
    bounds_terminals = False
    root_can_be_writable = False
    keeps_capabilities = False
    keeps_workspaces = False
    tells_signals = False
    explains_denials = False
    has_tight_filter = False
    keeps_environment = frozenset({"PWD", "HOSTNAME"})
    hides: ClassVar = {"read": False, "write": False}
    disk: ClassVar = {"/tmp": 4, "/dev/shm": 4, "/workspace": 2}


@pytest.mark.needs("dockerd")
class TestDocker(InContainer, *PARTS):
    start_seconds = 2.0

    @pytest.fixture(autouse=True)
    def _engine(self, docker_daemon: Daemon) -> None:
        type(self).backend = Docker(image=IMAGE, socket=docker_daemon.socket, prewarm=0)


@pytest.mark.needs("dockerd")
def test_forty_programs_are_the_same_in_containers(docker_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s")
    check_programs(Docker(image=IMAGE, socket=docker_daemon.socket, prewarm=0))


def check_programs(backend: Docker) -> None:
    """Check that the forty programs end in containers of ``backend`` as they do everywhere."""

    def seen(name: str) -> tuple[Any, ...]:
        what, limits, _ = PROGRAMS[name]
        policy = stockade.Policy(limits=QUICK | limits)
        run = stockade.run if isinstance(what, str) else stockade.run_command
        result = run(what, policy=policy, backend=backend)
        return result.outcome, result.exit_code, result.signal, result.limit, result.stdout

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(PROGRAMS, pool.map(seen, PROGRAMS), strict=True))
    assert found == {name: DIFFERENT.get(name, expected) for name, (_, _, expected) in PROGRAMS.items()}
