"""Notes for the logger ``stockade``, which has no listener in a process without ``logging``."""

from __future__ import annotations

import sys
from contextlib import contextmanager

from stockade.core.errors import StockadeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def info(message: str, *values: Any) -> None:
    """Log ``message % values`` at the level INFO."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("stockade").info(message, *values)


def warning(message: str, *values: Any) -> None:
    """Log ``message % values`` at the level WARNING. Without ``logging`` it goes to standard error."""
    _log("warning", message, values)


def error(message: str, *values: Any) -> None:
    """Log ``message % values`` at the level ERROR. Without ``logging`` it goes to standard error."""
    _log("error", message, values)


def _log(level: str, message: str, values: tuple[Any, ...]) -> None:
    logging = sys.modules.get("logging")
    if logging is not None:
        getattr(logging.getLogger("stockade"), level)(message, *values)
    elif sys.stderr is not None:
        print("stockade:", message % values, file=sys.stderr)


@contextmanager
def refusals() -> Iterator[None]:
    """Log an error of stockade's own that passes through: nothing was started."""
    try:
        yield
    except StockadeError as error:
        info("refused: %s: %s", type(error).__name__, error)
        raise
