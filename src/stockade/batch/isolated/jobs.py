"""The jobs of the two sandboxes that judge an answer isolated from its test."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from types import CodeType
from typing import Any

from stockade.api.job_arguments import job_from_source
from stockade.batch.isolated.codec import MAX_BYTES
from stockade.batch.records import Test
from stockade.runs.job import Job

_PACKAGE = "stockade.batch.isolated"
_LEAST, _DEFAULTS = 256 << 10, 4 << 20
_SHARED = ("scalars", "named_tuples", "codec", "messages", "modules")
_IMPORTED = {"server": _SHARED, "tester": (*_SHARED, "endings", "finding"), "finding": ()}
"""The modules that each started module imports, in the order in which they are made."""


def longest_message(memory: float | None) -> int:
    """Return the most bytes of a call or reply, if each sandbox has ``memory`` bytes.

    A message and its value together usually take less than ten times the message's bytes.
    """
    return MAX_BYTES if memory is None else max(_LEAST, min(MAX_BYTES, int(memory) // 16))


def tester_job(test: Test, interpreter: str | None = None, *, most: int = _DEFAULTS) -> Job:
    """Return the job of the test. It contains nothing of the answer. ``most`` bounds the bytes of a message."""
    wanted = {"setup": test.setup, "code": test.code, "functions": test.functions, "check": test.check, "most": most}
    return _job("tester", wanted, {}, interpreter)


def answer_job(test: Test, more: Mapping[str, bytes], interpreter: str | None = None, *, most: int = _DEFAULTS) -> Job:
    """Return the job of the answer. It contains nothing of the test. ``most`` bounds the bytes of a message."""
    wanted = {"source": test.answer, "functions": test.functions, "most": most}
    return _job("server", wanted, more, interpreter)


def shared_source(test: Test, token: str, interpreter: str | None = None) -> str:
    """Return answer and test as one program whose last line has the value ``token``.

    Tests that ``code`` only defines are found and run. The program raises ``NotTestedError`` if nothing was tested.
    """
    setup = "" if test.answer.startswith(test.setup) else f"{test.setup}\n\n"
    code, call = test.code, f"{test.check}({test.functions[0]})" if test.check else ""
    if not call:
        watched = f"_watched = {_library('finding', interpreter)}.Watched(globals(), {list(test.functions)!r})"
        code, call = f"{watched}\n{code}", "_watched.run()"
    return f"{setup}{test.answer}\n\n{code}\n\n{call}\n{token!r}\n"


def _job(name: str, wanted: Mapping[str, Any], more: Mapping[str, bytes], interpreter: str | None) -> Job:
    """Return a job with all of our code in its source, since a warm interpreter cannot run a job with extra files.

    Tracebacks show the last line, so it is short.
    """
    source = f"_module = {_library(name, interpreter)}\n_wanted = {wanted!r}\n_module.main(_wanted, __name__)\n"
    return job_from_source(source, files=dict(more), interpreter=interpreter)


@lru_cache(maxsize=8)
def _library(name: str, interpreter: str | None) -> str:
    """Return an expression that makes the module ``name`` and the modules which it imports, and whose value it is.

    For the interpreter of this process, the modules are compiled here once. Compiling takes longer than most tests.
    """
    modules = {f"{_PACKAGE}.{each}": _read(f"{each}.py") for each in (*_IMPORTED[name], name)}
    whole = {key: marshal.dumps(_compiled(key, text)) for key, text in modules.items()}
    return _LIBRARY.format(modules=modules if interpreter is not None else whole)


def _compiled(name: str, text: str) -> CodeType:
    code: CodeType = compile(text, name, "exec", dont_inherit=True, optimize=2)
    return code


_LIBRARY = """\
(lambda modules, sys=__import__("sys"), marshal=__import__("marshal"): [
    (lambda name, made, code: (
        sys.modules.setdefault(name, made),
        exec(marshal.loads(code) if type(code) is bytes else compile(code, name, "exec", 0, True), vars(made)),
        made,
    ))(name, type(sys)(name), code)[-1]
    for name, code in modules.items()
][-1])({modules!r})"""


def _read(name: str) -> str:
    return (files(_PACKAGE) / name).read_text(encoding="utf-8")
