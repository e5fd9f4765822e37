"""Every attack of the corpus succeeds in its control run, and meets the expected refusal in its confined run."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from stockade import Guarantee
from stockade.attacks import confined, corpus, needs, trial
from stockade.attacks.corpus import Attack
from stockade.attacks.internet import trials
from stockade.attacks.trial import Trial, Verdict
from stockade.policy.guarantees import LIMITS
from tests.conftest import MUST_RUN
from tests.support import host, second_pass
from tests.support.marks import marks_of

ATTACKS = corpus.load()
OTHERS = (("process", ("landlock",)), ("bubblewrap", ("bwrap",)), ("oci", ("crun",)), ("firejail", ("firejail",)))
"""``landlock`` is the ``process`` backend on a host with Landlock, which the tests of ``process`` require."""
NOT_ATTACKED = {Guarantee.SWAP, Guarantee.IO_READ, Guarantee.OPERATIONS}
"""Swap: a host without swap cannot be made to swap, so a test reads the limit back. The read rate needs a disk, and
``tests/system/test_io_rate.py`` attacks it. Operations: the guest itself counts them."""
WHOLE = bool(os.environ.get("STOCKADE_WHOLE"))
HELD_ELSEWHERE = frozenset((*LIMITS, Guarantee.SYSCALLS, Guarantee.NO_SURVIVORS))
"""Under ``oci``, the same code as under ``bubblewrap`` and ``native`` holds these. So one attack on each is run there, and
all of them with STOCKADE_WHOLE=1 (``make attacks-oci``)."""
CHOSEN = second_pass.chosen()
NOT_RUN = tomllib.loads((Path(__file__).parent / "not_run.toml").read_text())


@pytest.fixture(scope="module", autouse=True)
def host_as_before() -> Iterator[None]:
    """Check that all runs together leave nothing on the host."""
    with host.campaign():
        yield
        trials.stop()


@pytest.mark.parametrize("attack", [pytest.param(item, id=item.id, marks=marks_of(item)) for item in ATTACKS])
def test_attack_on_native_is_refused(attack: Attack) -> None:
    check(trial.attempt(attack))


def is_run(attack: Attack, backend: str) -> bool:
    if trials.STAGE in attack.stage:
        return False  # no other backend bounds a network: tests/system/test_network.py
    limited = attack.guarantee in HELD_ELSEWHERE and CHOSEN[attack.guarantee] != attack.id
    return WHOLE or backend != "oci" or not limited


@pytest.mark.parametrize(
    ("attack", "backend"),
    [
        pytest.param(item, name, id=f"{item.id}-{name}", marks=marks_of(item, *there))
        for item in ATTACKS
        for name, there in OTHERS
        if is_run(item, name)
    ],
)
def test_attack_on_other_backend_is_held(attack: Attack, backend: str) -> None:
    tried = trial.attempt(attack, backend)
    check(tried)
    listed = NOT_RUN["not_begun"][backend]
    assert (attack.id in listed) == tried.confined.what.startswith(confined.NOT_BEGUN), tried.confined.what


def test_not_begun_list_names_real_attacks() -> None:
    assert {name for listed in NOT_RUN["not_begun"].values() for name in listed} <= {attack.id for attack in ATTACKS}


def check(tried: Trial) -> None:
    assert tried.confined is not None, tried.reason
    assert tried.verdict in {Verdict.REFUSED, Verdict.ADMITTED}, tried.confined.what


def test_attack_not_run_is_listed_with_reason() -> None:
    listed = NOT_RUN["as_root" if os.geteuid() == 0 else "as_user"] | NOT_RUN["anywhere"]
    not_run = {attack.id: needs.why_not(attack.needs) for attack in ATTACKS if needs.why_not(attack.needs)}
    assert not {name: why for name, why in not_run.items() if name not in listed}
    assert not MUST_RUN or set(not_run) == set(listed)


def test_every_guarantee_is_attacked() -> None:
    attacked = {attack.guarantee for attack in ATTACKS} - {corpus.VERDICT}
    assert attacked == set(Guarantee) - NOT_ATTACKED


def test_attack_names_are_unique() -> None:
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# /// attack\n# guarantee = 1\n",
        "# /// attack\n# guarantee =\n# ///\n",
        "# /// attack\n# guarantee = 'x'\n# ///\n",
    ],
)
def test_file_with_invalid_header_is_refused(tmp_path, text) -> None:
    (tmp_path / "x").mkdir()
    path = tmp_path / "x" / "x.py"
    path.write_text(text)
    with pytest.raises(ValueError):
        corpus.parse(path)
