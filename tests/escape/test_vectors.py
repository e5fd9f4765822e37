"""The list of attack vectors and the corpus agree, and the page made of them is up to date."""

from __future__ import annotations

from stockade.attacks import corpus
from tests.escape import vectors


def test_every_vector_has_an_attack_or_reason() -> None:
    known = {attack.id for attack in corpus.load()}
    for theme in vectors.load().values():
        for name, entry in theme.items():
            assert entry.keys() <= {"attacks", "test", "not"}, name
            assert any(entry.values()), name
            assert set(entry.get("attacks", ())) <= known, name
            assert "test" not in entry or (vectors.ROOT / entry["test"]).is_file(), name


def test_every_attack_is_listed_as_vector() -> None:
    listed = {
        name for theme in vectors.load().values() for entry in theme.values() for name in entry.get("attacks", ())
    }
    assert {attack.id for attack in corpus.load()} - listed == set()


def test_attacks_page_is_up_to_date() -> None:
    assert vectors.PAGE.read_text(encoding="utf-8") == vectors.page(), "run: make attacks-page"


def test_corpus_covers_every_language() -> None:
    attacks = corpus.load()
    assert len(attacks) >= 150
    assert {attack.language for attack in attacks} == {"python", "shell", "c", "ruby", "javascript"}
