"""The same numbers of examples as in tests/unit."""

import tests.unit.conftest  # noqa: F401
