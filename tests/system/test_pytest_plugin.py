"""The fixture of our pytest plugin: a sandbox for each test, and nothing where no test asks for one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "pytest.md"
TESTS = """
import pytest, stockade

made = []

def test_state_is_kept_within_a_test(sandbox):
    made.append(sandbox)
    sandbox.run_command(["touch", "/tmp/left"]).check()
    assert sandbox.files.exists("/tmp/left")

@pytest.mark.sandbox(memory="64MiB")
class TestMarked:
    @pytest.mark.sandbox(processes=7)
    def test_marks_add_up(self, sandbox):
        assert made[0].closed and not sandbox.files.exists("/tmp/left")
        assert (sandbox.policy.limits.memory, sandbox.policy.limits.processes) == (64 << 20, 7)

@pytest.mark.sandbox("1GiB")
def test_mark_without_a_name(sandbox): ...

@pytest.mark.sandbox(memry="1GiB")
def test_misspelt_mark(sandbox): ...
"""


def pytest_in(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(source)
    plugin = ["-p", "no:stockade", "-p", "stockade.integrations.pytest"]  # whether or not it is installed
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", *plugin]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_fixture_gives_each_test_a_sandbox_of_its_own(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, TESTS)
    assert "2 passed, 2 errors" in done.stdout, done.stdout + done.stderr
    assert "options by name" in done.stdout and "no option 'memry': did you mean 'memory'" in done.stdout


def test_example_of_the_guide_passes(tmp_path: Path) -> None:
    done = pytest_in(
        tmp_path, re.findall(r"^```text\n(import.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)[0]
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_tests_of_strangers_run_inside(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "touched"
    project.mkdir()
    attack = f"import contextlib\nwith contextlib.suppress(OSError): open({str(outside)!r}, 'w').close()\n"
    (project / "conftest.py").write_text(attack)
    assert "1 passed" in pytest_in(project, "def test_it(): pass").stdout and outside.exists()  # the control
    outside.unlink()
    # This environment may have stockade by a path to its source, which is not shown inside.
    inside = ["python3", "-m", "pytest", "-q", "-p", "no:stockade"]
    command = ["run", "--profile", "test", "--packages", sys.prefix, "--", *inside]
    done = subprocess.run(
        [sys.executable, "-m", "stockade", *command], cwd=project, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "1 passed" in done.stdout, outside.exists()) == (0, True, False), done
    (project / "test_it.py").write_text("def test_it(): assert 0")
    done = subprocess.run([sys.executable, "-m", "stockade", *command], cwd=project, capture_output=True, check=False)
    assert done.returncode == 1


def test_plugin_imports_nothing_of_stockade_before_a_test_asks() -> None:
    code = (
        "import sys, stockade.integrations.pytest; print(*sorted(n for n in sys.modules if n.startswith('stockade')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "stockade", "stockade.core", "stockade.core.errors", "stockade.core.loading", "stockade.integrations",
        "stockade.integrations.pytest",
    ]  # fmt: skip
