"""The reference page is what the docstrings say."""

from __future__ import annotations

from tests.docs import reference


def test_reference_page_matches_the_docstrings() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), (
        "docs/reference.md is old: run make reference"
    )
