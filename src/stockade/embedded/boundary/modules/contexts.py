"""``contextlib``: written here, because each of its members decides what becomes of an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.facades import Fixed

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.namespace import Namespace


def contextlib(space: Namespace) -> dict[str, Any]:
    """Return the members of ``contextlib``."""
    caught = space.meter.caught

    def suppress(*kinds: Any) -> Any:
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise TypeError("suppress takes exception classes")
        return Context(lambda: None, lambda error: error is None or (caught() or isinstance(error, kinds)))

    def contextmanager(function: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: _from_generator(function(*args, **kwargs), caught)

    def closing(value: Any) -> Any:
        def leave(error: BaseException | None) -> bool:
            if error is not None:
                caught()
            value.close()
            return False

        return Context(lambda: value, leave)

    def nullcontext(value: Any = None) -> Any:
        return Context(lambda: value, lambda _error: False)

    return {"suppress": suppress, "contextmanager": contextmanager, "closing": closing, "nullcontext": nullcontext}


class Context(metaclass=Fixed):
    """A context made of two functions. They are kept under names that a script cannot spell."""

    __slots__ = ("__entering__", "__leaving__")

    def __init__(self, entering: Callable[[], Any], leaving: Callable[[BaseException | None], Any]) -> None:
        self.__entering__, self.__leaving__ = entering, leaving

    def __enter__(self) -> Any:
        return self.__entering__()

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> bool:
        return bool(self.__leaving__(error)) if error is not None else bool(self.__leaving__(None)) and False


def _from_generator(generator: Any, caught: Callable[[], None]) -> Context:
    def leave(error: BaseException | None) -> bool:
        if error is None:
            if next(generator, _ENDED) is not _ENDED:
                raise RuntimeError("generator didn't stop")
            return False
        caught()
        try:
            generator.throw(error)
        except StopIteration as end:
            return end is not error
        except BaseException as raised:
            if raised is error:
                return False
            raise
        raise RuntimeError("generator didn't stop after throw()")

    def enter() -> Any:
        value = next(generator, _ENDED)
        if value is _ENDED:
            raise RuntimeError("generator didn't yield")
        return value

    return Context(enter, leave)


_ENDED = object()
