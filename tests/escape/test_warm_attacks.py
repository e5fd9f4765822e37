"""Every attack in a language with a warm interpreter: a warm run refuses it just as a cold run does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from stockade.attacks import corpus, trial, warm
from stockade.attacks.corpus import Attack
from stockade.attacks.trial import Verdict
from tests.support import host
from tests.support.marks import marks_of

pytestmark = pytest.mark.needs("native")

ATTACKS = [attack for attack in corpus.load() if not warm.why_not(attack)]
COLD = {
    "filesystem_read/hidden_in_project": "the workspace is a folder of the host",
    "filesystem_read/private_file_brought_out": "the workspace is a folder of the host",
    "filesystem_write/core_left": "the guest can write to folders of the host",
    "filesystem_write/device_left": "the guest can write to folders of the host",
    "filesystem_write/hooks_in_project": "the workspace is a folder of the host",
    "filesystem_write/project_under_overlay": "the workspace is a folder of the host",
    "filesystem_write/setuid_in_a_struct": "the guest can write to folders of the host",
    "filesystem_write/setuid_left": "the guest can write to folders of the host",
    "filesystem_write/setuid_of_its_own": "the guest can write to folders of the host",
    "ipc/socket_in_written_folder": "the guest can write to folders of the host",
    "filesystem_write/whiteout_left": "the guest can write to folders of the host",
}
"""Attacks that always need a fresh interpreter, with the reason; see ``backends/native/warm.py``."""


@pytest.fixture(scope="module", autouse=True)
def host_as_before() -> Iterator[None]:
    """Check that all runs together leave nothing on the host."""
    with host.campaign():
        yield


@pytest.fixture(autouse=True)
def folders_outside_mount_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use /var/tmp: a warm guest has its own /tmp, so it cannot be shown a folder in the host's."""
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")


@pytest.mark.parametrize("attack", [pytest.param(item, id=item.id, marks=marks_of(item)) for item in ATTACKS])
def test_attack_on_warm_run_is_refused(attack: Attack) -> None:
    tried = trial.attempt(attack, warm.NAME)
    if attack.id in COLD:
        assert (
            tried.verdict is Verdict.NOT_RUN
            and f"warm: a fresh interpreter is needed: {COLD[attack.id]}" in tried.reason
        )
        return
    assert tried.confined is not None, tried.reason
    assert tried.verdict in {Verdict.REFUSED, Verdict.ADMITTED}, tried.confined.what
