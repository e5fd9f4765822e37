"""Blocking calls in threads of their own, with an end when the task that waits is cancelled."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
Stop = Callable[[threading.Event], object]
"""Ends a call that nobody waits for any more. The event is set when the call has ended."""


async def in_thread(call: Callable[[], T], *, stop: Stop | None = None, undo: Callable[[T], object] | None = None) -> T:
    """Call ``call`` in a thread of its own and return what it returns.

    A pool of threads would let long calls keep short ones waiting. If the task is cancelled, ``stop`` is called in
    another thread; then the task waits for the call's end, and ``undo`` takes back what it has made.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    ended = threading.Event()

    def work() -> None:
        try:
            report = functools.partial(future.set_result, context.run(call))
        except BaseException as error:
            report = functools.partial(future.set_exception, error)
        ended.set()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(report)

    context = contextvars.copy_context()
    threading.Thread(target=work, daemon=True, name="stockade call").start()
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        if stop is not None:
            threading.Thread(target=stop, args=(ended,), daemon=True, name="stockade stop").start()
        await _until_done(future)
        if undo is not None and future.exception() is None:
            made = future.result()
            await _until_done(asyncio.ensure_future(in_thread(lambda: undo(made))))
        raise
    return future.result()


async def _until_done(future: asyncio.Future[Any]) -> None:
    """Wait for an end that is certain to come, even if the task is cancelled once more."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    if not future.cancelled():
        future.exception()  # it is retrieved, so asyncio does not log it


class Layer(Protocol):
    """An object for asyncio around a blocking one."""

    @property
    def _inner(self) -> Any: ...

    async def _call(self, call: Callable[[], T]) -> T: ...


def forwarded(model: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Layer, P], Coroutine[Any, Any, T]]:
    """Return the method for asyncio that calls ``model``, with its arguments."""

    async def method(self: Layer, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._call(functools.partial(model, self._inner, *args, **options))

    renamed = functools.update_wrapper(method, model)
    renamed.__doc__ = f"See ``{model.__qualname__}``."
    return renamed


def like(
    model: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Any, P], T]]:
    """Give a method the arguments of ``model``, for type checkers and at run time."""
    return lambda method: _with_arguments_of(method, model)


def like_class(model: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[Concatenate[Any, P], T]]:
    """Do the same for a method of the class, whose ``model`` is one too."""
    return lambda method: _with_arguments_of(method, model.__func__)  # type: ignore[attr-defined]


def _with_arguments_of(method: Callable[..., T], model: Callable[..., Any]) -> Callable[..., T]:
    returns = inspect.signature(method).return_annotation
    method.__signature__ = inspect.signature(model).replace(return_annotation=returns)  # type: ignore[attr-defined]
    return method
