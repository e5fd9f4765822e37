"""Each protection can still be switched off: its edits fit the source as it is."""

import pytest

from tests.mutants import tree
from tests.mutants.protections import ALL, Protection


@pytest.mark.parametrize("protection", ALL, ids=lambda item: item.name)
def test_its_edits_apply(protection: Protection) -> None:
    assert tree.edited([protection])
