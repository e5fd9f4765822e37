"""Every error that stockade raises on purpose is a ``StockadeError``."""

from __future__ import annotations

import inspect
import pkgutil
from contextlib import suppress
from importlib import import_module

import stockade
from stockade import StockadeError

PUBLIC = [value for name in stockade.__all__ if inspect.isclass(value := getattr(stockade, name))]
ERRORS = [each for each in PUBLIC if issubclass(each, BaseException)]


def test_public_errors_derive_from_stockade_error() -> None:
    assert len(ERRORS) > 10
    assert [each for each in ERRORS if not issubclass(each, StockadeError)] == []


def test_names_of_stockade_errors_are_unique() -> None:
    for module in pkgutil.walk_packages(stockade.__path__, "stockade."):
        if ".attacks.programs" not in module.name and not module.name.endswith("__main__"):
            optional = ModuleNotFoundError if ".integrations." in module.name else ()  # its tool may not be installed
            with suppress(optional):
                import_module(module.name)
    names = [each.__name__ for each in {StockadeError, *below(StockadeError)}]
    assert sorted(names) == sorted(set(names))
    assert set(ERRORS) <= {StockadeError, *below(StockadeError)}


def below(kind: type[BaseException]) -> list[type[BaseException]]:
    return [each for direct in kind.__subclasses__() for each in (direct, *below(direct))]
