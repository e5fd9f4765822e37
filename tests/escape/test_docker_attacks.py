"""The attack corpus over the docker backend: one attack on each guarantee, or all of them (``make attacks-docker``)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from stockade import JobError, run
from stockade.attacks import corpus, trial
from stockade.attacks.corpus import Attack
from stockade.attacks.internet import trials
from stockade.attacks.trial import Verdict
from stockade.backends.docker.backend import Docker
from stockade.policy.guarantees import Guarantee
from tests.support import host
from tests.support.docker_engine import IMAGE, Daemon

pytestmark = pytest.mark.alone
WHOLE = bool(os.environ.get("STOCKADE_WHOLE"))
ALL = [
    attack
    for attack in corpus.load()
    if attack.language in ("python", "shell") and (Docker.traits.bounds_network or trials.STAGE not in attack.stage)
]
"""The image has no other languages' kits, and a program in C is built for the host's libraries. A way out is refused by
every backend that does not bound it."""
_CHOSEN = {attack.guarantee: attack.id for attack in reversed(ALL)} | {
    Guarantee.CPU_TIME: "cpu_time/loop",
}
NOT_BEGUN = frozenset({"privileges/as_root_inside"})
"""Attacks under a policy that the backend refuses."""
ATTACKS = [attack for attack in ALL if WHOLE or _CHOSEN[attack.guarantee] == attack.id]


@pytest.fixture(scope="module", autouse=True)
def nothing_left(docker_daemon: Daemon) -> Iterator[None]:
    """Check that all runs together leave no container, and nothing on the host."""
    with host.as_before():
        yield
        assert host.eventually(lambda: not docker_daemon.containers(), 20), docker_daemon.containers()


@pytest.mark.needs("dockerd")
@pytest.mark.parametrize(
    "attack", [pytest.param(item, id=item.id, marks=[pytest.mark.needs(*item.needs)]) for item in ATTACKS]
)
def test_attack_on_docker_is_held(attack: Attack, docker_daemon: Daemon) -> None:
    if attack.id in NOT_BEGUN:
        with pytest.raises(JobError, match=r"security\.uid=0"):
            run("1", policy=attack.policy, image=IMAGE, backend=Docker(socket=docker_daemon.socket))
        return
    tried = trial.attempt(attack, Docker(image=IMAGE, socket=docker_daemon.socket, prewarm=0))
    assert tried.confined is not None, tried.reason
    assert tried.verdict in {Verdict.REFUSED, Verdict.ADMITTED}, tried.confined.what
