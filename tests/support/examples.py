"""How many examples a property test draws. ``HYPOTHESIS_PROFILE`` names the profile: quick, commit or long.

``make unit`` uses ``quick``. ``commit`` is the default and what ``make test`` runs. ``long`` looks for what these miss.
"""

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "commit")
_COUNTS = {"quick": 12, "commit": 40, "long": 2000}


def load() -> None:
    """Make the profile the default of every property test."""
    for name, count in _COUNTS.items():
        settings.register_profile(name, max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile(PROFILE)


def examples(count: int) -> int:
    """Return ``count``, the number for a test that needs its own, or a part of it for the profile ``quick``."""
    return max(count * _COUNTS["quick"] // _COUNTS["commit"], 1) if PROFILE == "quick" else count
