"""The list of ways in and the corpus agree, and the page that is made of them is up to date."""

from __future__ import annotations

from stockade.attacks import corpus
from tests.escape import vectors


def test_every_vector_has_an_attack_or_reason() -> None:
    known = {attack.id for attack in corpus.load()}
    for theme in vectors.load().values():
        for name, told in theme.items():
            assert told.keys() <= {"attacks", "test", "not"}, name
            assert any(told.values()), name
            assert set(told.get("attacks", ())) <= known, name
            assert "test" not in told or (vectors.ROOT / told["test"]).is_file(), name


def test_every_attack_is_listed_as_vector() -> None:
    listed = {name for theme in vectors.load().values() for told in theme.values() for name in told.get("attacks", ())}
    assert {attack.id for attack in corpus.load()} - listed == set()


def test_attacks_page_is_up_to_date() -> None:
    assert vectors.PAGE.read_text(encoding="utf-8") == vectors.page(), "run: make attacks-page"


def test_corpus_covers_every_language() -> None:
    attacks = corpus.load()
    assert len(attacks) >= 150
    assert {attack.language for attack in attacks} == {"python", "shell", "c", "ruby", "javascript"}
