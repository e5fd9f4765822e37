"""Hypothesis: enough examples to find mistakes, few enough for every commit; ``HYPOTHESIS_PROFILE=long`` for more."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("commit", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "commit"))
