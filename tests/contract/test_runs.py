"""Promises of the native backend beyond the conformance suite, and of the public interface."""

import subprocess
import sys
from pathlib import Path

import pytest

import stockade


def test_command_that_is_no_program_fails():
    result = stockade.run_command(["/etc/passwd"])
    assert (result.exit_code, result.error.type) == (126, "NotExecutable")


def test_read_only_workspace_error_names_cause(tmp_path):
    tmp_path.chmod(0o755)
    result = stockade.run("open('b', 'w')", policy=stockade.Policy(filesystem={"workspace": tmp_path}))
    assert "Read-only file system" in result.stderr


def test_default_environment_is_exact():
    result = stockade.run("import os; print(*sorted(os.environ))")
    assert result.stdout == "HOME LANG MKL_NUM_THREADS OMP_NUM_THREADS OPENBLAS_NUM_THREADS PATH TMPDIR\n"
    unbounded = stockade.Policy(limits={"processes": "unlimited"})
    assert stockade.run("import os; print(*sorted(os.environ))", policy=unbounded).stdout == "HOME LANG PATH TMPDIR\n"


def test_source_and_workspace_folders_are_fixed():
    assert stockade.run("import sys; print(sys.path[0], __file__)").stdout == "/workspace /job/main.py\n"


def test_unknown_language_or_suffix_is_refused(tmp_path):
    with pytest.raises(stockade.JobError, match="cobol"):
        stockade.run("1", language="cobol")
    with pytest.raises(stockade.JobError, match="suffix"):
        stockade.run(tmp_path / "x.cob")
    with pytest.raises(stockade.JobError, match="No such file"):
        stockade.run(tmp_path / "x.py")


def test_import_of_stockade_loads_few_modules():
    code = "import sys, stockade; print([m for m in ('pydantic', 'asyncio', 'click', 'subprocess', 'typing') if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(Path(stockade.__file__).parents[1])},
    )  # fmt: skip
    assert found.stdout in ("[]\n", "['typing']\n")
