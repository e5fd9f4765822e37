"""Turn source into a code object in which every operation is metered or guarded. Woven code is kept by its digest."""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from inspect import CO_GENERATOR
from threading import Lock
from types import CodeType

from stockade.embedded.boundary.meter import SCRIPT
from stockade.embedded.weave.build import copied, store
from stockade.embedded.weave.source import SourceError, parse
from stockade.embedded.weave.statements import Statements

RESULT = "$result"
GUARDS = (
    "$type", "$int", "$float", "$str", "$dict", "$set", "$units", "$next", "$compress", "$key", "$text", "$cat",
    "$len", "$owed", "$due",
)  # fmt: skip
"""Guards that code of a module reads often: as globals they are found without a look among the module's locals."""
MOST_KEPT, MOST_KEPT_SOURCE = 256, 16_384
MOST_IN_FRAME = 500


_OF_SCRIPTS = rf"{re.escape(SCRIPT)}|stockade\.embedded\."


@dataclass(frozen=True)
class Woven:
    """The woven form of one source: its code, the names in it, and whether its last statement is an expression."""

    code: CodeType
    symbols: frozenset[str]
    has_value: bool


_kept: OrderedDict[bytes, Woven] = OrderedDict()
_lock = Lock()


def weave(source: str, filename: str) -> Woven:
    """Return the woven form of ``source``, or raise ``SourceError``."""
    digest = hashlib.sha256(f"{filename}\0{source}".encode("utf-8", "surrogatepass")).digest()
    with _lock:
        found = _kept.get(digest)
        if found is not None:
            _kept.move_to_end(digest)
            return found
    made = _woven(source, filename)
    if len(source) > MOST_KEPT_SOURCE:
        return made
    with _lock:
        _kept[digest] = made
        if len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return made


def _woven(source: str, filename: str) -> Woven:
    _silence()
    tree = parse(source, SCRIPT + filename)
    weaver = Statements()
    has_value = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
    try:
        body = weaver.block(tree.body)
        if has_value:
            last = body[-1]
            assert isinstance(last, ast.Expr)
            body[-1] = copied(ast.Assign([store(RESULT)], last.value), last)
        bound = sorted(weaver.scopes.globals | {RESULT})
        first = ast.Global([*bound, *GUARDS], lineno=1, col_offset=0)
        module = ast.fix_missing_locations(ast.Module([first, *body], []))
        code = compile(module, SCRIPT + filename, "exec", dont_inherit=True, optimize=0)
    except SyntaxError as error:
        raise SourceError(error.msg or "invalid syntax", error.lineno or 0) from None
    except SourceError:
        raise
    except Exception as error:  # a source that this code does not foresee is refused as well
        raise SourceError(f"source is too complex: {type(error).__name__}") from None
    _check_frames(code)
    return Woven(code, frozenset(weaver.symbols), has_value)


def _silence() -> None:
    """Keep warnings about scripts off the host's standard error: of the compiler, and of calls by guards.

    Only a filter does that for every thread. It names the files of scripts and this package, and is added again if the
    host has dropped it.
    """
    if not any(getattr(module, "pattern", "") == _OF_SCRIPTS for *_, module, _ in warnings.filters):
        warnings.filterwarnings("ignore", module=_OF_SCRIPTS)


def _check_frames(code: CodeType) -> None:
    """Refuse a generator with a large frame: one unit of fuel makes a generator, and a script can keep many."""
    for inner in code.co_consts:
        if not isinstance(inner, CodeType):
            continue
        size = inner.co_nlocals + inner.co_stacksize + len(inner.co_cellvars) + len(inner.co_freevars)
        if inner.co_flags & CO_GENERATOR and size > MOST_IN_FRAME:
            raise SourceError(f"a generator with more than {MOST_IN_FRAME} variables", inner.co_firstlineno)
        _check_frames(inner)
