"""The two jobs of judging an answer apart from its test."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from stockade._given import job_from_source
from stockade._job import Job
from stockade.batch.records import Test

_PACKAGE = "stockade.batch.apart"
_FUTURE = "from __future__ import annotations"


def testing(test: Test, interpreter: str | None = None) -> Job:
    """Return the job of testing: the test and its setup, and not a word of the answer."""
    wanted = {"setup": test.setup, "code": test.code, "functions": test.functions, "check": test.check}
    return _job("tester.py", wanted, {}, interpreter)


def answering(test: Test, more: Mapping[str, bytes], interpreter: str | None = None) -> Job:
    """Return the job of answering: the answer and its files, and not a word of the test."""
    wanted = {"source": test.answer, "functions": test.functions}
    return _job("server.py", wanted, more, interpreter)


def together(test: Test, token: str) -> str:
    """Return answer and test as one program whose last line has the value ``token``, if the test gets there."""
    setup = "" if test.answer.startswith(test.setup) else f"{test.setup}\n\n"
    call = f"{test.check}({test.functions[0]})" if test.check else ""
    return f"{setup}{test.answer}\n\n{test.code}\n\n{call}\n{token!r}\n"


def _job(program: str, wanted: Mapping[str, Any], more: Mapping[str, bytes], interpreter: str | None) -> Job:
    """All that is ours is in the source: with files of its own, a job could not be run by a warm interpreter."""
    source = f"{_FUTURE}\n{_library()}\n{_read(program).replace(_FUTURE, '')}\n\nmain({wanted!r})\n"
    return job_from_source(source, files=dict(more), interpreter=interpreter)


@lru_cache(maxsize=1)
def _library() -> str:
    """Return a program that makes what both programs import, in packages of the same names, which are empty there."""
    parts = _PACKAGE.split(".")
    packages = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    modules = {f"{_PACKAGE}.{name}": _read(f"{name}.py") for name in ("codec", "endings")}
    return _LIBRARY.format(packages=packages, modules=modules)


_LIBRARY = """\
def _make(packages, modules):
    import sys
    for name in packages:
        sys.modules[name] = type(sys)(name)
        sys.modules[name].__path__ = []
    for name, text in modules.items():
        module = sys.modules[name] = type(sys)(name)
        exec(compile(text, name, "exec", 0, True), vars(module))
_make({packages!r}, {modules!r})
del _make
"""


@lru_cache(maxsize=4)
def _read(name: str) -> str:
    return (files(_PACKAGE) / name).read_text(encoding="utf-8")
