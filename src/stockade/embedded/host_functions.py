"""Host functions: typed where a script's values enter them, and told how long they may take."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from stockade.core.errors import FieldProblem, PolicyError
from stockade.embedded.errors import HostError

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE = "deadline"
_UNTYPED = (inspect.Parameter.empty, Any)


class HostFunction:
    """A function of the host with its parameters' types. ``remaining`` returns the seconds that are left."""

    def __init__(self, name: str, function: Callable[..., Any], remaining: Callable[[], float | None]) -> None:
        self._name, self._function, self._remaining = name, function, remaining
        if not callable(function):
            raise PolicyError([FieldProblem(f"register({name!r})", repr(function), "expected a function")])
        try:
            self._signature = inspect.signature(function, eval_str=True)
        except (TypeError, ValueError, NameError) as error:
            raise PolicyError(
                [FieldProblem(f"register({name!r})", repr(function), f"its signature is unknown: {error}")]
            ) from None
        found = self._signature.parameters
        self._takes_deadline = DEADLINE in found and found[DEADLINE].kind is inspect.Parameter.KEYWORD_ONLY
        self._adapters = {
            each.name: _adapter(each.annotation)
            for each in found.values()
            if each.annotation not in _UNTYPED and not (self._takes_deadline and each.name == DEADLINE)
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Check the arguments, and call the function. A script learns which of its arguments is wrong."""
        if self._takes_deadline:
            if DEADLINE in kwargs:
                raise HostError(f"{self._name}() takes no argument {DEADLINE!r} from a script")
            kwargs[DEADLINE] = self._remaining()
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise HostError(f"{self._name}(): {error}") from None
        for name, adapter in self._adapters.items():
            if name in bound.arguments:
                bound.arguments[name] = self._checked(name, adapter, bound.arguments[name])
        return self._function(*bound.args, **bound.kwargs)

    def _checked(self, name: str, adapter: TypeAdapter[Any], value: Any) -> Any:
        kind = self._signature.parameters[name].kind
        try:
            if kind is inspect.Parameter.VAR_POSITIONAL:
                return tuple(adapter.validate_python(each, strict=True) for each in value)
            if kind is inspect.Parameter.VAR_KEYWORD:
                return {key: adapter.validate_python(each, strict=True) for key, each in value.items()}
            return adapter.validate_python(value, strict=True)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False)[0]
            raise HostError(f"{self._name}(): argument {name!r}: {problem['msg']}") from None


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except Exception:  # a class with a configuration of its own takes no other
        return TypeAdapter(annotation)


def allowed_members(target: object, allow: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
    """Return the methods of a host object that are listed, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for name in allow:
        member = getattr(target, name, None)
        if name.startswith("_") or not callable(member):
            raise PolicyError([FieldProblem("allow", repr(name), "must name a public method of the object")])
        found[name] = member
    return found
