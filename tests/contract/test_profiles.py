"""The rights that each profile gives each language, and the table of them in the guide."""

import re
from pathlib import Path

import pytest

import stockade
from tests.contract.profiles import LANGUAGES, PROFILES, project_and_listener, rights

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "policies.md"
UNCOUNTED = r"refused: .* operations: nothing holds it.*nothing counts the operations of (javascript|shell|a command)"
# From each profile to the rights of a program whose operations can be counted.
ABLE = {
    "default": "ran, file, process",
    "strict": "ran",
    "conservative": "ran, process",
    "moderate": "ran, file, process",
    "generous": "ran, file, network, process",
    "dev": "ran, file, network, process",
    "build": "ran, file, process",
    "test": "ran, file, process",
}
COUNTING = ("conservative", "moderate", "generous")
TOO_SMALL = "; crashed by SIGABRT"  # the stacks of Node's threads count as data if no group counts memory
RETRIES = "; ended by its limit on wall_time"  # Ruby and bash repeat a refused fork without end


@pytest.fixture(scope="module")
def port():
    with project_and_listener() as found:
        yield found


def expected(profile, language):
    if profile in COUNTING and language not in ("python", "ruby"):
        return UNCOUNTED
    if (profile, language) == ("strict", "javascript") and "memory" not in stockade.plan().facts.cgroups:
        return re.escape(TOO_SMALL)
    waits = profile == "strict" and language in ("ruby", "shell", "command")
    return re.escape(ABLE[profile]) + (re.escape(RETRIES) if waits else "")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("profile", PROFILES)
def test_profile_allows_what_the_table_says(profile, language, port):
    found = rights(profile, language, port)
    assert re.match(expected(profile, language) + "$" * (not found.startswith("refused")), found), found


def test_guide_shows_the_same_table():
    rows = [line.split(" | ") for line in GUIDE.read_text().splitlines() if line.startswith("| ")]
    for profile in PROFILES:
        cells = next(row for row in rows if row[0] == f"| {profile}" and len(row) == 1 + len(LANGUAGES))[1:]
        for language, shown in zip(LANGUAGES, cells, strict=True):
            wanted = ABLE[profile] if (profile, language) == ("strict", "javascript") else expected(profile, language)
            shown = shown.removesuffix(" |")
            assert shown.startswith("refused [") if wanted is UNCOUNTED else re.fullmatch(wanted, shown), (
                profile,
                shown,
            )
