from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "stockade"]
Done = subprocess.CompletedProcess[bytes]


def _environment(extra: dict[str, str] | None) -> dict[str, str]:
    without = ("NO_COLOR", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    own = {name: value for name, value in os.environ.items() if name not in without}
    return {**own, "TERM": "xterm", **(extra or {})}


@pytest.fixture(scope="session", autouse=True)
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the bytecode of many short processes in its own folder, since compiling takes longer than they do."""
    os.environ["PYTHONPYCACHEPREFIX"] = str(tmp_path_factory.mktemp("bytecode"))


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep tests apart from what this host's user has built: with a machine, untrusted code would not be refused."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that the guest's uid may read, under any user that runs the tests."""
    for path in (tmp_path, tmp_path.parent):
        path.chmod(0o755)
    place = tmp_path / "here"
    place.mkdir()
    return place


@pytest.fixture
def stockade(folder: Path) -> Callable[..., Done]:
    """Run the real command in ``folder`` and return the completed process."""

    def run(*words: str, stdin: bytes | int | Any = subprocess.DEVNULL, env: dict[str, str] | None = None) -> Done:
        input_option: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
        return subprocess.run(
            [*COMMAND, *words], cwd=folder, env=_environment(env), capture_output=True, timeout=60, **input_option
        )

    return run


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start the real command in a process group of its own; ``file_size`` bounds the files that it may write."""
    started: list[subprocess.Popen[bytes]] = []

    def launch(*words: str, file_size: int | None = None, **options: Any) -> subprocess.Popen[bytes]:
        env = None
        if file_size is not None:
            options["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
            # CPython keeps bytecode that such a process could write only in part: other processes fail to import it.
            env = {"PYTHONDONTWRITEBYTECODE": "1"}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        process = subprocess.Popen(
            [*COMMAND, *words], cwd=folder, env=_environment(env), start_new_session=True, **streams
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        process.kill()
        process.communicate()
