"""Source in a language: values, arguments, threads, and the language by file suffix."""

from __future__ import annotations

import venv
from pathlib import Path
from typing import Any

import pytest

import stockade
from stockade import Outcome
from stockade.testing.base import PATIENT, Expectations, Run


class LanguagesContract(Expectations):
    """Python and shell source runs as in an ordinary interpreter."""

    @pytest.mark.parametrize(("source", "value", "text"), [
        ("1 + 1", 2, "2"),
        ("x = 3\n[x, 'é', None]", [3, "é", None], "[3, 'é', None]"),
        ("{'a': (1, 2)}", {"a": [1, 2]}, "{'a': (1, 2)}"),
        ("object", None, "<class 'object'>"),
        ("float('nan')", None, "nan"),
        ("x = 1", None, None),
        ("print('x')", None, None),
        ("", None, None),
        ("'a doc string'", "a doc string", "'a doc string'"),
        ("from __future__ import annotations\n5", 5, "5"),
        ("import sys; sys.exit(0)", None, None),
    ])  # fmt: skip
    def test_last_expression_is_the_value(self, run: Run, source: str, value: Any, text: str | None) -> None:
        result = run(source)
        assert (result.outcome, result.value, result.value_repr) == (Outcome.COMPLETED, value, text)

    def test_value_too_large_leaves_its_repr(self, run: Run) -> None:
        result = run("'x' * 5_000_000", policy={"limits": PATIENT})
        assert result.value is None
        assert result.value_repr is not None
        assert result.value_repr.startswith("'xxx")
        assert len(result.value_repr) == 64 << 10

    def test_source_runs_as_main_with_arguments(self, run: Run) -> None:
        code = (
            "import os, sys, __main__\n"
            "print(__name__, sys.argv[1:], __main__.__file__ == __file__, sys.path[0] == os.getcwd())"
        )
        assert run(code, arguments=["a", "b c"]).stdout == "__main__ ['a', 'b c'] True True\n"

    def test_threads_and_exit_handlers_finish(self, run: Run) -> None:
        code = (
            "import atexit, threading, time\natexit.register(print, 'exit')\n"
            "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\nprint('main')"
        )
        assert run(code).stdout.split() == ["main", "thread", "exit"]

    def test_subprocess_module_works(self, run: Run) -> None:
        code = (
            "import subprocess, sys\n"
            "print(subprocess.run([sys.executable, '-c', 'print(3)'], capture_output=True, text=True).stdout)\n"
        )
        result = run(code, policy={"limits": PATIENT})
        assert result.stdout.split() == ["3"], result.stderr

    def test_multiprocessing_pool_works(self, run: Run) -> None:
        if not self.own_root:
            return  # the semaphores of multiprocessing are files of /dev/shm
        code = (
            "import multiprocessing as m\n"
            "if __name__ == '__main__':\n"
            "    with m.get_context('spawn').Pool(2) as p: print(p.map(abs, [-1, -2]))\n"
        )
        result = run(code, policy={"limits": {**PATIENT, "processes": 32}})
        assert result.stdout == "[1, 2]\n", result.stderr

    def test_language_follows_file_suffix(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "job.sh").write_text('echo "$1 ${0##*/}"; exit 3')
        result = run(tmp_path / "job.sh", arguments=["hi"], language="shell")
        assert (result.exit_code, result.stdout) == (3, "hi job.sh\n")
        (tmp_path / "job.py").write_text("1/0")
        assert 'job.py", line 1' in run(tmp_path / "job.py").stderr
        assert run("echo $((1+1))", language="sh").stdout == "2\n"

    def test_virtual_environment_can_be_named(self, tmp_path: Path) -> None:
        if self.brings_programs:
            return
        if self.interpreter is None:
            venv.create(tmp_path / "env", with_pip=False)
        else:
            import subprocess

            subprocess.run([self.interpreter, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
        site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
        (site / "only_here.py").write_text("x = 7")
        _open_to_all(tmp_path)
        code = "import only_here, sys\nprint(only_here.x, sys.prefix)"
        result = self.run_source(code, interpreter=tmp_path / "env")
        assert result.stdout == f"7 {tmp_path}/env\n", result.stderr
        error = self.run_source(code).error
        assert error is not None
        assert error.type == "ModuleNotFoundError"

    @pytest.mark.parametrize("interpreter", ["/no/such/python", "/etc/passwd"])
    def test_invalid_interpreter_is_named_before_start(self, interpreter: str) -> None:
        if self.brings_programs:
            return
        with pytest.raises(stockade.JobError, match=interpreter):
            self.run_source("1", interpreter=interpreter)


def _open_to_all(folder: Path) -> None:
    """Open ``folder`` to other users, because a guest can have a uid of its own."""
    for each in (folder, *folder.parents):
        if each.owner() == folder.owner() and str(each).startswith("/tmp/"):
            each.chmod(0o755)
