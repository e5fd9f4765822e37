"""Starts the zygote of Python. A child process compiles stockade's code for it and then ends.

Compiling in the zygote itself would leave a heap a fifth larger, and every fork would carry it. This file lies where
the agent lies for a fresh interpreter, so both have the same command line. It needs Python 3.11 or newer.
"""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any

    from stockade.languages.agents.python_zygote import agent, finish

    Modules = dict[str, tuple[CodeType, str, bool]]
    """Maps a module's name to its code, its file, and whether it is a package."""

FOLDER = os.path.dirname(__file__)
OWN_CODE = os.path.join(os.path.dirname(FOLDER), ".stockade", "stockade")
_FILES = ("zygote.py", "run.py")


class Importer:
    """Imports modules from compiled code; see ``importlib.abc``."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        """Return the spec of a module that was compiled for the zygote, else ``None``."""
        if name not in self._modules:
            return None
        _, file, is_package = self._modules[name]
        spec: Any = type(sys.__spec__)(name, self, origin=file, is_package=is_package)  # type: ignore[arg-type]
        spec.has_location = True
        return spec

    def create_module(self, _spec: object) -> None:
        """Let the interpreter create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module's code."""
        exec(self._modules[module.__name__][0], vars(module))


def enter_package() -> None:
    """Make stockade's modules importable, without the package's own ``__init__`` and its imports."""
    package = type(sys)("stockade")
    package.__path__ = [OWN_CODE]
    sys.modules["stockade"] = package


def compile_file(file: str, name: str) -> CodeType:
    """Return the code of ``file``, compiled with the file name ``name``."""
    with open(file, "rb") as source:
        code: CodeType = compile(source.read(), name, "exec", dont_inherit=True, optimize=2)
    return code


def compile_all() -> bytes:
    """Return the compiled agent files and all stockade modules that they import, marshalled; see ``Modules``."""
    enter_package()
    from stockade.core import trace  # noqa: F401
    from stockade.warden.warm import zygote  # noqa: F401

    files = {name: compile_file(os.path.join(FOLDER, name), __file__) for name in _FILES}
    modules: Modules = {}
    for name, module in sys.modules.items():
        if name.startswith("stockade."):
            file = str(module.__file__)
            modules[name] = compile_file(file, file), file, hasattr(module, "__path__")
    return marshal.dumps((files, modules))


def compile_in_child() -> tuple[dict[str, CodeType], Modules]:
    """Run ``compile_all`` in a child process, and return its result."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with open(writing, "wb") as answer:
            answer.write(compile_all())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    if not data:
        raise SystemExit("stockade's code for the warm interpreter could not be compiled")
    files, modules = marshal.loads(data)
    return files, modules


files, modules = compile_in_child()
importer = Importer(modules)
exec(files["zygote.py"])  # defines the names below; returns once in each guest
try:  # at module level, so that the job's stack has no more frames than in a fresh interpreter
    agent["main"]()
except SystemExit as error:
    ended = agent["exit_status"](error)
except BaseException:
    ended = 1
    sys.excepthook(*sys.exc_info())
finish(ended)
