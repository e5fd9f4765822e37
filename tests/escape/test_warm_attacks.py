"""The corpus against a copy of a warm interpreter: other processes make it, and the same must be refused there."""

from __future__ import annotations

import dataclasses

import pytest

from stockade._given import job_from_source
from stockade._job import Job
from stockade.attacks import confined, corpus, trial
from stockade.attacks.corpus import Attack
from stockade.attacks.trial import Verdict
from stockade.attacks.world import World
from stockade.backends.base import Backend

pytestmark = pytest.mark.needs("namespaces")

SHOWING = {
    "readonly",
    "shared",
    "project",
    "project_overlay",
    "project_write",
    "project_private",
    "private_file",
    "setuid",
    "device_node",
}
"""Stages that show files of the host in ``/tmp``, which a warm interpreter has laid its own over: such runs are never warm."""
ATTACKS = [item for item in corpus.load() if item.language == "python" and not SHOWING.intersection(item.stage)]
DIFFERENT = {
    # A warm guest tells its exit status on the channel of its result, and so do these: a status is a guest's own choice.
    "verdict/nonsense_report": "verdict failed 255",
    "verdict/wire_messages": "verdict completed",
    # An ordinary user's init was executed in a user namespace whose root he is: how many files it has open shows in
    # /proc, and no more than that.
    "filesystem_read/proc_descriptors": "errno | says the init's descriptors can be listed",
}
"""What is refused in another way than where a fresh interpreter runs."""
_KIT = """import sys, types
kit = sys.modules["kit"] = types.ModuleType("kit")
exec({text!r}, vars(kit))
"""


def _warm(attack: Attack, world: World, backend: Backend) -> Job:
    assert attack.kit is not None
    source = _KIT.format(text=attack.kit.read_text()) + attack.path.read_text()
    environment = {**world.environment, **attack.confined}
    return dataclasses.replace(job_from_source(source, language="python", environment=environment), warm=True)


@pytest.mark.parametrize(
    "attack", [pytest.param(item, id=item.id, marks=[pytest.mark.needs(*item.needs)]) for item in ATTACKS]
)
def test_refused_in_a_copy_of_a_warm_interpreter(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "_program", _warm)
    if attack.id in DIFFERENT:
        attack = dataclasses.replace(attack, refusal={"default": DIFFERENT[attack.id]})
    tried = trial.attempt(attack, "native", controls=False)
    assert tried.verdict is Verdict.UNPROVED, tried.confined or tried.reason
