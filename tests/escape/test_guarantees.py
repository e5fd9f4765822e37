"""The README shows the very tables that the page has from real runs."""

from __future__ import annotations

import pytest

from tests.escape import guarantees

_PAGE = "# x\n\n## As root\n\ntext\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| other |\n\n## As a user\n\n| c |\n"


def test_the_readme_is_up_to_date() -> None:
    readme = guarantees.README.read_text(encoding="utf-8")
    assert guarantees.placed(readme, guarantees.all_tables()) == readme, "run: make guarantees"
    assert readme.count("<summary>As ") == 2 * sum(page.exists() for page in guarantees.PAGES)


def test_the_first_table_of_each_caller_is_shown() -> None:
    assert guarantees.tables(_PAGE) == (
        "<details><summary>As root</summary>\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n</details>\n\n"
        "<details><summary>As a user</summary>\n\n| c |\n\n</details>\n"
    )


def test_a_readme_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="0 places"):
        guarantees.placed("# x\n", "")
