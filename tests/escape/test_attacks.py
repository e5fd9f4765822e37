"""Every attack of the corpus: it succeeds unconfined, or its refusal proves nothing; confined it meets that refusal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stockade import Guarantee
from stockade.attacks import corpus, trial
from stockade.attacks.corpus import Attack
from tests.support import host

ATTACKS = corpus.load()
OTHERS = (("process", ("landlock",)), ("bubblewrap", ("bwrap",)), ("firejail", ("firejail",)))
"""``landlock`` is ``process`` where Landlock is there, as it must be for these."""
NOT_ATTACKED = {Guarantee.SWAP, Guarantee.CPU_RATE, Guarantee.IO_READ, Guarantee.OPERATIONS}
"""Swap is read back (a host without swap cannot be driven into it); the others are absent unless asked for. The rate of
reads is attacked in ``tests/system/test_io_rate.py``, where there is a disk; operations are the guest's to count."""


@pytest.fixture(scope="module", autouse=True)
def host_as_before() -> Iterator[None]:
    """Nothing of all the runs is left on the host."""
    host.adopt_orphans()
    host.settle_warden()
    before = host.Snapshot.take()
    yield
    host.settle_warden()
    host.eventually(lambda: not host.Snapshot.take().more_than(before), seconds=2)
    assert host.Snapshot.take().more_than(before) == {}


@pytest.mark.parametrize(
    "attack", [pytest.param(item, id=item.id, marks=[pytest.mark.needs(*item.needs)]) for item in ATTACKS]
)
def test_refused_where_it_would_succeed(attack: Attack) -> None:
    tried = trial.attempt(attack)
    assert tried.control.good, f"the control did not succeed: {tried.control.what}"
    assert tried.confined.good, tried.confined.what


@pytest.mark.parametrize("backend", [pytest.param(name, marks=pytest.mark.needs(*needs)) for name, needs in OTHERS])
@pytest.mark.parametrize(
    "attack", [pytest.param(item, id=item.id, marks=[pytest.mark.needs(*item.needs)]) for item in ATTACKS]
)
def test_refused_or_admitted_by_another_backend(attack: Attack, backend: str) -> None:
    tried = trial.attempt(attack, backend)
    assert tried.control.good, f"the control did not succeed: {tried.control.what}"
    assert tried.confined.good, tried.confined.what


def test_every_guarantee_is_attacked() -> None:
    attacked = {attack.guarantee for attack in ATTACKS} - {"verdict"}
    assert attacked == set(Guarantee) - NOT_ATTACKED


def test_names_are_unique() -> None:
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("text", ["", "# /// attack\n# guarantee = 1\n", "# /// attack\n# guarantee =\n# ///\n"])
def test_a_file_without_a_sound_header_is_refused(tmp_path, text) -> None:
    path = tmp_path / "x.py"
    path.write_text(text)
    with pytest.raises(ValueError):
        corpus.parse(path)
