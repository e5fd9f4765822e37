"""Each profile on each language: what ran, what was refused, and that the guide's table says so."""

import re
from pathlib import Path

import pytest

import stockade
from tests.contract.profiles import LANGUAGES, PROFILES, cell, surroundings

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "policies.md"
UNCOUNTED = r"refused: .* operations: nothing holds it.*nothing counts the operations of (javascript|shell|a command)"
# A profile, then what a program of a language that is counted could do under it.
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
TOO_SMALL = "; crashed by SIGABRT"  # Node, whose threads' stacks count as data where no group counts memory
RETRIES = "; ended by its limit on wall_time"  # Ruby and bash ask for ever for a process that they cannot have


@pytest.fixture(scope="module")
def port():
    with surroundings() as found:
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
    found = cell(profile, language, port)
    assert re.match(expected(profile, language) + "$" * (not found.startswith("refused")), found), found


def test_guide_shows_the_same_table():
    rows = [line.split(" | ") for line in GUIDE.read_text().splitlines() if line.startswith("| ")]
    for profile in PROFILES:
        cells = next(row for row in rows if row[0] == f"| {profile}" and len(row) == 1 + len(LANGUAGES))[1:]
        for language, said in zip(LANGUAGES, cells, strict=True):
            wanted = ABLE[profile] if (profile, language) == ("strict", "javascript") else expected(profile, language)
            said = said.removesuffix(" |")
            assert said.startswith("refused [") if wanted is UNCOUNTED else re.fullmatch(wanted, said), (profile, said)
