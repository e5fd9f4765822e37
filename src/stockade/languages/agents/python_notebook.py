"""Notebook syntax besides Python: ``!command``, ``%magic``, ``IPython.display`` and pictures of matplotlib.

Loaded into the namespace of ``python_cells.py``, whose process it shares. Python 3.8 or newer, standard library only.
"""

from __future__ import annotations

import ast
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, NoReturn

    from stockade.languages.agents.python_cells import Cells

_MAGIC = re.compile(r"(\s*)((?:[\w.,*\[\]'\" ]+?\s*=\s*)?)([!%])(?!=)(.*)\Z", re.DOTALL)
_CELL_MAGIC = re.compile(r"\s*%%(\w+)[ \t]*([^\n]*)\n?(.*)\Z", re.DOTALL)
_EXPANDED = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|\$\$|\$(\w+)")
_IMAGES = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"%PDF", "application/pdf"))
_INSTALLERS = ("pip", "conda", "mamba", "uv")
_INSTALL = re.compile(r"\s*(?:\S*python[\d.]*\s+-m\s+)?(?:pip[\d.]*|conda|mamba|uv)\s.*\binstall\b")
_WAY = "name packages when you create the sandbox: Sandbox.create(requirements=['pandas']), stockade repl --with pandas"


class UsageError(Exception):
    """A magic that is unknown, refused, or used wrongly."""

    __module__ = "builtins"  # a traceback then shows the name alone


def translate(source: str) -> str:
    """Return a cell as Python: lines that begin with ``!`` or ``%`` become calls. Line numbers stay."""
    whole = _CELL_MAGIC.match(source)
    if whole:
        return "get_ipython().run_cell_magic({!r}, {!r}, {!r})".format(*whole.groups())
    if "!" not in source and "%" not in source:
        return source
    try:
        ast.parse(source)
        return source
    except (SyntaxError, ValueError):
        pass
    lines, text = source.split("\n"), Text()
    for at, line in enumerate(lines):
        found = _MAGIC.match(line) if text.between_statements else None
        if found is None:
            text.feed(line)
            continue
        following = at
        while line.endswith("\\") and following + 1 < len(lines):
            following += 1
            line = line[:-1] + lines[following]  # noqa: PLW2901
            lines[following] = ""
        indent, target, sign, rest = _MAGIC.match(line).groups()  # type: ignore[union-attr]
        if sign == "!":
            call = "getoutput" if target or rest.startswith("!") else "system"
            lines[at] = "{}{}get_ipython().{}({!r})".format(indent, target, call, rest.lstrip("! "))
        else:
            name, _, words = rest.strip().partition(" ")
            lines[at] = f"{indent}{target}get_ipython().run_line_magic({name!r}, {words.strip()!r})"
    return "\n".join(lines)


class Text:
    """Follows Python text line by line: whether the next line begins a statement."""

    _TOKEN = re.compile(r"#.*|\\.|'''|\"\"\"|['\"]|[(\[{]|[)\]}]|\\\Z")

    def __init__(self) -> None:
        self.quote, self.depth, self.continued = "", 0, False

    @property
    def between_statements(self) -> bool:
        """Whether the next line begins a statement."""
        return not self.quote and self.depth <= 0 and not self.continued

    def feed(self, line: str) -> None:
        """Read one line."""
        self.continued = line.endswith("\\")
        for token in self._TOKEN.findall(line):
            if self.quote:
                if token == self.quote:
                    self.quote = ""
            elif token[0] == "#":
                return
            elif token[0] in "'\"":
                self.quote = token
            elif token in "([{":
                self.depth += 1
            elif token in ")]}":
                self.depth -= 1
        if len(self.quote) == 1 and not self.continued:
            self.quote = ""


class Notebook:
    """The object that ``get_ipython()`` returns: magics and commands."""

    def __init__(self, cells: Cells) -> None:
        self.cells, self.user_ns = cells, cells.space
        self.events, self.display_pub, self.kernel = self, self, None  # libraries look for them

    def register(self, *_: Any) -> None:
        """Accept a callback of a library, and never call it."""

    def run_line_magic(self, name: str, line: str, **_: Any) -> Any:
        """Run ``%name line``."""
        if name in _INSTALLERS:
            self.refuse(name)
        magic = getattr(self, "line_" + name, None)
        if magic is None:
            self.unknown("%", name, "line_")
        return magic(self.expanded(line))

    magic = run_line_magic

    def run_cell_magic(self, name: str, line: str, cell: str) -> Any:
        """Run ``%%name line`` over the rest of the cell."""
        magic = getattr(self, "cell_" + name, None)
        if magic is None:
            self.unknown("%%", name, "cell_")
        return magic(line, cell)

    def refuse(self, name: str) -> NoReturn:
        """Refuse to install packages."""
        raise UsageError(f"%{name} is refused: a sandbox takes no packages while it lives; {_WAY}")

    def unknown(self, sign: str, name: str, prefix: str) -> NoReturn:
        """Refuse a magic that is not there."""
        known = sorted(sign + each[len(prefix) :] for each in dir(self) if each.startswith(prefix))
        raise UsageError("{}{} is unknown; there are {}".format(sign, name, ", ".join(known)))

    def expanded(self, text: str) -> str:
        """Replace ``{expression}`` and ``$name`` by values of the namespace; leave what has none."""

        def value(found: re.Match[str]) -> str:
            if found[1] is None and found[2] is None:
                return found[0][0] if found[0] != "$$" else "$$"
            try:
                return str(eval(found[1], self.user_ns)) if found[1] else str(self.user_ns[found[2]])
            except Exception:
                return found[0]

        return _EXPANDED.sub(value, text)

    def system(self, command: str) -> None:
        """Run a shell command. Its output is the cell's output."""
        import subprocess

        self.cells.flush()
        status = self.user_ns["_exit_code"] = subprocess.call([shell(), "-c", self.expanded(command)])
        if status and _INSTALL.match(command):
            print(f"stockade: {_WAY}", file=sys.stderr)

    def getoutput(self, command: str, **_: Any) -> list[str]:
        """Run a shell command; return the lines of its output."""
        import subprocess

        argv = [shell(), "-c", self.expanded(command)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # noqa: PLW1510
        self.user_ns["_exit_code"] = done.returncode
        return done.stdout.decode("utf-8", "replace").splitlines()

    def line_cd(self, line: str) -> None:
        """Change the folder."""
        os.chdir(os.path.expanduser(line.strip("'\"") or "~"))
        print(os.getcwd())

    def line_pwd(self, _line: str) -> str:
        """Return the folder."""
        return os.getcwd()

    def line_env(self, line: str) -> Any:
        """Return the environment or one variable, or set one."""
        name, sign, value = line.partition("=" if "=" in line else " ")
        if sign:
            os.environ[name.strip()] = value.strip()
            print(f"env: {name.strip()}={value.strip()}")
            return None
        return os.environ.get(name) if name else dict(os.environ)

    line_set_env = line_env

    def line_matplotlib(self, line: str) -> None:
        """Accept ``inline``, which always holds."""
        if line.strip() not in ("", "inline", "agg"):
            raise UsageError(f"%matplotlib {line}: a sandbox has no screen; use %matplotlib inline")

    def line_config(self, _line: str) -> None:
        """Accept settings of other front ends, without effect."""

    def line_time(self, line: str) -> Any:
        """Run a statement and print how long it takes."""
        return self.cell_time("", line)

    def line_timeit(self, line: str) -> None:
        """Print how long an expression takes."""
        import timeit

        timer = timeit.Timer(line, globals=self.user_ns)
        number, seconds = timer.autorange()
        print(f"{min([seconds, *timer.repeat(4, number)]) / number:.3g} s per loop ({number} loops)")

    def cell_time(self, _line: str, cell: str) -> Any:
        """Run a cell and print how long it takes."""
        import time

        begin, used = time.perf_counter(), time.process_time()
        value, _ = self.cells.execute(cell, f"<cell {self.cells.count}>")
        print(f"CPU times: {time.process_time() - used:.3g} s")
        print(f"Wall time: {time.perf_counter() - begin:.3g} s")
        return value

    def cell_bash(self, _line: str, cell: str) -> None:
        """Run a shell script."""
        import subprocess

        self.cells.flush()
        status = subprocess.call([shell(), "-c", cell])
        if status:
            raise subprocess.CalledProcessError(status, "%%bash")

    cell_sh = cell_bash

    def cell_writefile(self, line: str, cell: str) -> None:
        """Write a file."""
        with open(os.path.expanduser(line.strip()), "w", encoding="utf-8") as file:
            file.write(cell)
        print("Writing " + line.strip())

    def cell_html(self, _line: str, cell: str) -> None:
        """Show HTML."""
        self.cells.display({"text/html": cell}, raw=True)

    def cell_markdown(self, _line: str, cell: str) -> None:
        """Show Markdown."""
        self.cells.display({"text/markdown": cell}, raw=True)


def shell() -> str:
    """Return the shell for commands."""
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


class Rich:
    """Base of ``HTML``, ``Image`` and the like: data, or the content of a file."""

    kind = ""

    def __init__(self, data: Any = None, url: Any = None, filename: Any = None, **_options: Any) -> None:
        if url is not None:
            raise UsageError("url is refused: a sandbox fetches nothing to show; pass data or filename")
        if filename is not None or (isinstance(data, str) and self.kind == "" and os.path.isfile(data)):
            with open(filename or data, "rb") as file:
                data = file.read()
        if isinstance(data, bytes) and self.kind:
            data = data.decode("utf-8", "replace")
        self.data = data

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object>"

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        kinds = (kind for start, kind in _IMAGES if isinstance(self.data, bytes) and self.data.startswith(start))
        kind = self.kind or next(kinds, "")
        return {kind: self.data} if kind else {}


class Modules:
    """Provides ``IPython`` and ``IPython.display``, and makes ``matplotlib.pyplot.show`` show figures."""

    def __init__(self, notebook: Notebook) -> None:
        kinds = {
            "HTML": "text/html", "Markdown": "text/markdown", "SVG": "image/svg+xml", "JSON": "application/json",
            "Latex": "text/latex", "Javascript": "application/javascript", "Image": "",
        }  # fmt: skip
        shown: dict[str, Any] = {name: type(name, (Rich,), {"kind": kind}) for name, kind in kinds.items()}
        shown.update(display=notebook.cells.display, clear_output=lambda *_, **__: None)
        top = {"get_ipython": lambda: notebook, "version_info": (8, 24, 0, ""), "__version__": "8.24.0", "__path__": []}
        self.made = {"IPython": {**top, "display": None}, "IPython.display": shown, "IPython.core.display": shown}
        self.made["IPython"]["display"] = shown["display"]
        self.made["IPython.core"] = {"__path__": []}
        self.notebook, self.busy = notebook, False

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        """Return the spec of a module of this class, or of ``matplotlib.pyplot`` with another ``show``."""
        if name in self.made:
            spec: Any = type(sys.__spec__)
            return spec(name, self, is_package="__path__" in self.made[name])
        if name != "matplotlib.pyplot" or self.busy:
            return None
        import importlib.util

        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is None:
            return None
        execute: Callable[[ModuleType], None] = spec.loader.exec_module

        def with_show(module: Any) -> None:
            execute(module)
            module.show = lambda *_, **__: self.notebook.cells.figures()

        spec.loader.exec_module = with_show
        return spec

    def create_module(self, _spec: object) -> None:
        """Let the interpreter create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module."""
        vars(module).update(self.made[module.__name__])


def serve(reading: int, writing: int, preload: list[str], prepare: Callable[[Cells], object]) -> NoReturn:
    """Import modules, and then run cells from one descriptor and send what they do to the other."""
    cells = Cells(reading, writing)
    prepare(cells)
    notebook = Notebook(cells)
    cells.space["get_ipython"] = lambda: notebook
    sys.meta_path.insert(0, Modules(notebook))
    for name in preload:
        __import__(name)
    cells.serve()
