"""Each row of the page on choosing is what ``select`` answers."""

import json
import re
from pathlib import Path

import pytest

from stockade import Policy, StockadeError
from stockade.api import select
from stockade.backends import registry
from tests.unit import facts as hosts

PAGE = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text()
HOSTS = {"root": hosts.ROOT_V1, "account": hosts.USER, "account, no namespaces": hosts.NOTHING}


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table below the heading ``title``."""
    text = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")][2:]


@pytest.mark.parametrize("row", rows("What stockade chooses"), ids=lambda row: " - ".join(row[:3]))
def test_choice_is_that_of_select(row: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without bwrap, crun and firejail
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # without a machine
    for engine in ("DOCKER_HOST", "CONTAINER_HOST"):
        monkeypatch.setenv(engine, f"unix://{tmp_path}/none")
    host, trust, _, policy, choice, _ = row
    try:
        found = select.select(Policy(**json.loads(policy.strip("`"))), HOSTS[host], trust.strip("`") or None)
    except StockadeError:
        assert choice == "refused"
    else:
        assert choice == f"`{found.backend.name}`"


def test_every_backend_has_a_row() -> None:
    named = {name for row in rows("What you choose yourself") for name in re.findall(r"`(\w+)`", row[1])}
    assert named == {*registry.BUILT_IN, *registry.BY_NAME}


def test_backend_that_is_named_gets_no_exemption_from_trust() -> None:
    for name in {*registry.BUILT_IN, *registry.BY_NAME} - {"microvm"}:
        with pytest.raises(StockadeError, match="isolat"):
            select.require_isolation(registry.find(name), Policy(), "untrusted")
