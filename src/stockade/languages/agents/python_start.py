"""Starts the interpreter that is kept warm. What it runs of this package is compiled by a process of its own that ends:
to compile leaves a heap behind that is a fifth larger, and every copy would have to carry it.

Lies where the agent lies for a fresh interpreter, so that the command line is the same. Python 3.11 and newer.
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
    """Name to code, file, and whether it is a package."""

FOLDER = os.path.dirname(__file__)
OWN_CODE = os.path.join(os.path.dirname(FOLDER), ".stockade", "stockade")
_FILES = ("zygote.py", "run.py")


class Importer:
    """Imports modules that are compiled already; see ``importlib.abc``."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        """Return where ``name`` comes from, if it comes from here."""
        if name not in self._modules:
            return None
        _, file, is_package = self._modules[name]
        spec: Any = type(sys.__spec__)(name, self, origin=file, is_package=is_package)  # type: ignore[arg-type]
        spec.has_location = True
        return spec

    def create_module(self, _spec: object) -> None:
        """Leave that to the interpreter."""

    def exec_module(self, module: ModuleType) -> None:
        """Run its code."""
        exec(self._modules[module.__name__][0], vars(module))


def enter_package() -> None:
    """Have this package's modules found, without its public face and what that imports."""
    package = type(sys)("stockade")
    package.__path__ = [OWN_CODE]
    sys.modules["stockade"] = package


def compile_file(file: str, name: str) -> CodeType:
    """Return the code of ``file``, which is to know itself as ``name``."""
    with open(file, "rb") as source:
        code: CodeType = compile(source.read(), name, "exec", dont_inherit=True, optimize=2)
    return code


def compile_all() -> bytes:
    """Return the code of our files here, by name, and of all modules that they import; see ``Modules``."""
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
    """Have a child compile it all."""
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
        raise SystemExit("what keeps an interpreter warm could not be compiled")
    files, modules = marshal.loads(data)
    return files, modules


files, modules = compile_in_child()
importer = Importer(modules)
exec(files["zygote.py"])  # defines what follows; goes on in each copy
try:  # here, where no frame more stands below the job's than in a fresh interpreter
    agent["main"]()
except SystemExit as error:
    ended = agent["exit_status"](error)
except BaseException:
    ended = 1
    sys.excepthook(*sys.exc_info())
finish(ended)
