"""The marker ``needs``: a test names what it needs of the host, and is skipped, with the reason, where it is missing.

With ``STOCKADE_MUST_RUN=all`` every skip is a failure, whoever asked for it. What a host is by nature (root or
not) leaves tests out instead, since the suite is run once as each.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support import docker_engine, facilities, podman_engine, second_pass

MUST_RUN = os.environ.get("STOCKADE_MUST_RUN") == "all"

# A shell without job control starts what it puts in the background with this signal ignored, and that is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[docker_engine.Daemon]:
    """A docker daemon of the tests' own, with an image."""
    with docker_engine.running() as daemon:
        yield daemon


@pytest.fixture(scope="session")
def podman_service() -> Iterator[docker_engine.Daemon]:
    """A podman service of the tests' own, with an image."""
    with docker_engine.running(kind=podman_engine.Service) as service:
        yield service


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this kind of host cannot have by nature, and in the second pass what the first one has shown."""
    left_out = {item for item in items if any(facilities.missing(name) for name in _needs(item, by_nature=True))}
    if second_pass.SECOND:
        left_out |= {item for item in items if second_pass.left_out(item)}
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a facility that is missing."""
    for name in _needs(item, by_nature=False):
        reason = facilities.missing(name)
        if reason:
            pytest.skip(f"needs {name}: {reason}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Turn a skip into a failure where everything must run."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if MUST_RUN and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"STOCKADE_MUST_RUN=all and this did not run: {reason}"


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """A whole module may skip itself as well."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if MUST_RUN and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"STOCKADE_MUST_RUN=all and this did not run: {report.longrepr}"


def _needs(item: pytest.Item, *, by_nature: bool) -> list[str]:
    names = [name for mark in item.iter_markers("needs") for name in mark.args]
    return [name for name in names if facilities.is_by_nature(name) == by_nature]
