"""The page for users of other tools names fields and tests that exist."""

import re
from pathlib import Path

from stockade.policy.rules import RULES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "coming-from.md").read_text()


def test_coming_from_names_policy_fields() -> None:
    named = set(re.findall(r"`((?:limits|security|filesystem|environment)\.\w+)`", PAGE))
    assert len(named) > 15
    assert named <= {*RULES}


def test_coming_from_names_a_test_for_each_system() -> None:
    rows = [line.split(" | ") for line in PAGE.partition("## Systems")[2].splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 15
    for system, *_, here, test in rows:
        found = re.findall(r"`(tests/[\w/.]+)`", test)
        assert found or here.startswith("not here"), system
        assert all((ROOT / path).exists() for path in found), system
