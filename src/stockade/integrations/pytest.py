"""The fixture ``sandbox`` for tests: a living sandbox for each test. pytest finds it by its entry point.

Every pytest where stockade is installed loads this module, so it imports nothing of stockade before a test asks.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from stockade.api.sandbox import Sandbox


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest what the mark is for."""
    config.addinivalue_line("markers", "sandbox(**options): arguments of Sandbox.create for the fixture sandbox")


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A living sandbox that ends with the test. ``@pytest.mark.sandbox(memory="1GiB")`` chooses its options."""
    from stockade.api.sandbox import Sandbox

    options: dict[str, object] = {}
    for mark in request.node.iter_markers("sandbox"):  # the closest first
        if mark.args:
            raise TypeError(f"mark sandbox: options by name, as in sandbox(memory='1GiB'), not {mark.args!r}")
        options = mark.kwargs | options
    with Sandbox.create(**options) as made:  # type: ignore[arg-type]
        yield made
