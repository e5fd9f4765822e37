"""The markers of a test that tries an attack."""

from __future__ import annotations

import pytest

from stockade.attacks.corpus import Attack


def marks_of(attack: Attack, *facilities: str) -> list[pytest.MarkDecorator]:
    """Return the markers of a test of ``attack`` that needs ``facilities`` too."""
    alone = [pytest.mark.alone] if attack.alone else []
    return [pytest.mark.needs(*attack.needs, *facilities), *alone]
