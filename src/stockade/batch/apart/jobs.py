"""The two jobs of judging an answer apart from its test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from stockade._given import job_from_source
from stockade._job import Job
from stockade.batch.records import Test

_PACKAGE = "stockade.batch.apart"


def testing(test: Test, interpreter: str | None = None) -> Job:
    """Return the job of testing: the test and its setup, and not a word of the answer."""
    wanted = {"setup": test.setup, "code": test.code, "functions": test.functions, "check": test.check}
    return _job("tester.py", {"test.json": json.dumps(wanted)}, interpreter)


def answering(test: Test, more: Mapping[str, bytes], interpreter: str | None = None) -> Job:
    """Return the job of answering: the answer and its files, and not a word of the test."""
    wanted = {"source": test.answer, "functions": test.functions}
    return _job("server.py", {**more, "answer.json": json.dumps(wanted)}, interpreter)


def together(test: Test, token: str) -> str:
    """Return answer and test as one program whose last line has the value ``token``, if the test gets there."""
    setup = "" if test.answer.startswith(test.setup) else f"{test.setup}\n\n"
    call = f"{test.check}({test.functions[0]})" if test.check else ""
    return f"{setup}{test.answer}\n\n{test.code}\n\n{call}\n{token!r}\n"


def _job(program: str, own: Mapping[str, Any], interpreter: str | None) -> Job:
    return job_from_source(_read(program) + "\n\nmain()\n", files={**own, **_library()}, interpreter=interpreter)


@lru_cache(maxsize=1)
def _library() -> Mapping[str, str]:
    """Return what both programs import, in the packages of the same names, which are empty there."""
    parts = _PACKAGE.split(".")
    packages = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    modules = {f"{'/'.join(parts)}/{name}": _read(name) for name in ("codec.py", "endings.py")}
    return {f"{package}/__init__.py": "" for package in packages} | modules


@lru_cache(maxsize=4)
def _read(name: str) -> str:
    return (files(_PACKAGE) / name).read_text(encoding="utf-8")
