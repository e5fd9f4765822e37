"""System-call filters: tight, standard and permissive. One side builds them as bytes, the other side loads them.

The caller builds (`build`) and explains (`explain`). The side inside the sandbox imports only the module `install` and
loads the bytes. The supervisor of a filter with notifications imports `notify`. Names of this package are looked up
lazily, so that importing the package costs those sides nothing.
"""

TYPE_CHECKING = False  # known to type checkers; importing typing would take longer than everything else here
if TYPE_CHECKING:
    from stockade.linux.seccomp.docker import load_profile
    from stockade.linux.seccomp.filters import build, table_of
    from stockade.linux.seccomp.groups import Filter
    from stockade.linux.seccomp.syscalls import Arch
    from stockade.linux.seccomp.table import Table
    from stockade.linux.seccomp.tree import compile_table
    from stockade.linux.seccomp.words import explain

__all__ = ["Arch", "Filter", "Table", "build", "compile_table", "explain", "load_profile", "table_of"]

_MODULES = {
    "Arch": "syscalls",
    "Filter": "groups",
    "Table": "table",
    "build": "filters",
    "compile_table": "tree",
    "explain": "words",
    "load_profile": "docker",
    "table_of": "filters",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
