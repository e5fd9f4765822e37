"""Use the same numbers of examples as tests/unit."""

import tests.unit.conftest  # noqa: F401
