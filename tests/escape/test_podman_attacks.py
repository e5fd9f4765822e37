"""The attack corpus over podman: where its request differs from docker's, or all of it (``make attacks-podman``)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from stockade.attacks import trial
from stockade.attacks.corpus import Attack
from stockade.attacks.trial import Verdict
from stockade.backends.podman.backend import Podman
from tests.escape.test_docker_attacks import ALL, NOT_BEGUN
from tests.support import host
from tests.support.docker_engine import IMAGE, Daemon

pytestmark = pytest.mark.alone

WHOLE = bool(os.environ.get("STOCKADE_WHOLE"))
_PART = {
    "environment/control_groups",
    "filesystem_write/own_proc",
    "privileges/device_in_a_folder",
    "syscalls/clone_flags",
}
"""Held by what docker's request says otherwise, or not at all, in podman's interface for docker's requests."""
CHOSEN = [each for each in ALL if each.id not in NOT_BEGUN and (WHOLE or each.id in _PART)]


@pytest.fixture(scope="module", autouse=True)
def nothing_left(podman_service: Daemon) -> Iterator[None]:
    """Check that all runs together leave no container, and nothing on the host."""
    with host.as_before():
        yield
        assert host.eventually(lambda: not podman_service.containers(), 20), podman_service.containers()


@pytest.mark.needs("podman")
@pytest.mark.parametrize(
    "attack", [pytest.param(item, id=item.id, marks=[pytest.mark.needs(*item.needs)]) for item in CHOSEN]
)
def test_attack_on_podman_is_held(attack: Attack, podman_service: Daemon) -> None:
    tried = trial.attempt(attack, Podman(image=IMAGE, socket=podman_service.socket, prewarm=0))
    assert tried.confined is not None, tried.reason
    assert tried.verdict in {Verdict.REFUSED, Verdict.ADMITTED}, tried.confined.what
