"""Tests with the real frameworks, each in a virtual environment of its own: ``make test-integrations``."""


def pytest_sessionfinish(session):
    """Let a skipped test fail the session."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter.stats.get("skipped") and not session.exitstatus:
        session.exitstatus = 1
