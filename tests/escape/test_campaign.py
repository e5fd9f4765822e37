"""A campaign can fail: it notices a missing protection, and a lost worker process counts for the attack."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from stockade.attacks import corpus, outside, trial
from stockade.attacks.campaign import Campaign
from stockade.attacks.half import Half
from stockade.attacks.report import Findings, command, junit, markdown, matrix
from stockade.attacks.trial import Trial, Verdict
from tests.mutants import tree
from tests.mutants.protections import BY_NAME

GOOD = Half(good=True, what="")
BAD = Half(good=False, what="seen from outside", succeeded=True)


def made(confined: Half | None, control: Half | None = GOOD) -> Trial:
    return Trial(
        "network/tcp", "network", "native", control, confined, "network namespace", "kernel", reason="no such host"
    )


@pytest.mark.parametrize(
    ("tried", "verdict"),
    [
        (made(GOOD), Verdict.REFUSED),
        (made(GOOD, control=None), Verdict.UNPROVED),
        (made(BAD), Verdict.SUCCEEDED),
        (made(Half(good=False, what="exit 44")), Verdict.OTHERWISE),
        (made(Half(good=True, what="", succeeded=True, admitted=True)), Verdict.ADMITTED),
        (made(None), Verdict.NOT_RUN),
    ],
)
def test_trial_halves_decide_the_verdict(tried: Trial, verdict: Verdict) -> None:
    assert tried.verdict is verdict
    assert Trial.from_json(tried.as_json()) == tried


@pytest.mark.parametrize(
    ("trials", "held"),
    [
        ([], False),
        ([made(None)], False),
        ([made(GOOD)], True),
        ([made(GOOD), made(BAD)], False),
        ([made(GOOD), made(Half(good=False, what=""))], False),
        ([made(Half(good=True, what="", succeeded=True, admitted=True))], False),
    ],
)
def test_findings_held_needs_a_refusal(trials: list[Trial], held: bool) -> None:
    assert Findings(tuple(trials)).held is held
    assert Findings(tuple(trials), left=("process 1",)).held is False


def test_report_shows_matrix_and_command() -> None:
    assert matrix([made(GOOD), made(BAD), made(None)], ["native"]) == [["network", "kernel 1/2 (1 FAILED, 1 not run)"]]
    assert command(made(BAD)) == "stockade attack --backend native --only network/tcp"
    assert b'failures="1"' in junit(Findings((made(BAD),)), ["native"])
    junit(Findings((made(Half(good=False, what="\x00\x1b<")),)), ["native"])


def test_page_names_failures_and_leaks() -> None:
    page = markdown(Findings((made(BAD),), left=("process 1 (sleep)",)), ["native"], "As root")
    assert "**Failed**: `network/tcp` on native" in page and "**Left behind on this host**: process 1 (sleep)." in page


def test_worker_killed_by_attack_counts_as_success(tmp_path: Path) -> None:
    deadly = tmp_path / "wall_time" / "deadly.py"
    deadly.parent.mkdir()
    header = {"guarantee": "wall_time", "summary": "x", "reference": "x", "success": "x"}
    lines = [f'# {key} = "{value}"' for key, value in header.items()]
    # Its control run ends the worker process, as an attack on its supervisor could.
    killer = "import os\npid = os.getppid()\nwith open(f'/proc/{pid}/stat') as f:\n    up = int(f.read().rpartition(') ')[2].split()[1])\nos.kill(up, 9)\n"
    deadly.write_text("\n".join(["# /// attack", *lines, '# refusal = { default = "errno" }', "# ///", "", killer]))
    harmless = next(attack for attack in corpus.load() if attack.id == "verdict/exit_124")
    campaign = Campaign([corpus.parse(deadly), harmless], ["native"])
    trials = list(campaign.trials())
    assert not list(Path(tempfile.gettempdir()).glob(f"{outside.prefix(campaign.name)[:-1]}*"))
    assert [(each.attack, each.verdict) for each in trials] == [
        ("wall_time/deadly", Verdict.SUCCEEDED),
        ("verdict/exit_124", Verdict.REFUSED),
    ]


@pytest.mark.needs("root")
def test_missing_protection_is_noticed() -> None:
    with tree.mutated([BY_NAME["network namespace"]]) as place:
        trials = tree.attacked(place, ["network/udp", "filesystem_read/dot_dot"])
    assert {each["attack"]: each["verdict"] for each in trials} == {
        "network/udp": "succeeded",
        "filesystem_read/dot_dot": "unproved",
    }


def test_attacks_marked_alone_run_one_by_one() -> None:
    class Recording(Campaign):
        def _run_attacks(self, attacks, jobs):
            asked.append(({attack.alone for attack in attacks}, jobs))
            return iter(())

    asked: list[tuple[set[bool], int]] = []
    assert list(Recording(corpus.load(), ["native"], jobs=4).trials()) == []
    assert asked == [({False}, 4), ({True}, 1)]


def test_kits_use_the_sentinels_of_corpus() -> None:
    from stockade.attacks.programs import kit

    sentinels = (corpus.SUCCEEDED, corpus.REFUSED, corpus.COULD_NOT_RUN)
    assert sentinels == (kit.SUCCEEDED, kit.REFUSED, kit.COULD_NOT_RUN)
    for name in ("kit.rb", "kit.js"):
        text = (corpus.FOLDER / name).read_text()
        assert [f"finish({code}, " in text for code in sentinels] == [True] * 3


def test_every_mutant_edit_still_applies() -> None:
    """The source text that an edit replaces still exists."""
    for item in BY_NAME.values():
        for count in range(len(item.beside) + 1):
            tree.edited([item, *(BY_NAME[name] for name in item.beside[:count])])


def test_attack_without_control_is_not_run(monkeypatch) -> None:
    attack = next(attack for attack in corpus.load() if attack.id == "network/udp")
    monkeypatch.setattr(trial.control, "run", lambda attack: Half(good=False, what="not observed from outside"))
    monkeypatch.setattr(trial, "_controls", {})
    tried = trial.attempt(attack)
    assert tried.verdict is Verdict.NOT_RUN and "control did not succeed" in tried.reason
