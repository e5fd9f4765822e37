"""A call and its reply, one line each: the test's arguments, and the value and changes that the answer returns."""

from __future__ import annotations

from operator import is_
from typing import Any

from stockade.batch.isolated.codec import Objects, UnequalError, from_line, replace, to_line
from stockade.batch.isolated.scalars import CodecError, type_name

_PLAIN = (str, int, float, bool, type(None))


class Call:
    """A call of one of the answer's functions, on either side."""

    def __init__(self, most: int) -> None:
        """``most`` bounds the bytes of each message."""
        self._most = most
        self._objects = Objects()
        self._before: list[Any] = []
        self._argument_count = 0

    def encode_call(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
        """Return the call as a line. Raises ``CodecError`` if an argument cannot cross."""
        line = to_line(self._objects.wrap([name, list(arguments), named]), self._most)
        self._argument_count = len(self._objects.known)
        return line

    def decode_call(self, line: bytes) -> tuple[str, list[Any], dict[str, Any]]:
        """Return the function's name and the arguments that a line holds, and remember the arguments' content."""
        name, arguments, named = self._objects.load(from_line(line, self._most))
        self._argument_count = len(self._objects.known)
        self._before = [_content(each) for each in self._objects.known]
        return name, arguments, named

    def encode_value(self, value: Any) -> bytes:
        """Return the reply with a value and the changes, or with the reason why they cannot cross."""
        try:
            return self._reply("returned", self._objects.wrap(value))
        except UnequalError as error:
            return to_line(["t", "unequal", str(error)])
        except CodecError as error:
            return to_line(["t", "refused", str(error)])
        except Exception as error:  # reading the value runs code of the answer, which may raise
            why = f"a value of type {type_name(value)}; reading it raises {type(error).__name__}"
            return to_line(["t", "refused", why])

    def encode_error(self, error: BaseException) -> bytes:
        """Return the reply with an error and the changes. The names of the error's classes come first."""
        names = [each.__name__ for each in type(error).__mro__ if isinstance(each.__name__, str)]
        try:
            message = str(error)[:1000]
        except Exception:
            message = ""
        try:
            return self._reply("raised", ["t", *names[:20]], self._arguments(error, message))
        except Exception:  # the changes cannot cross, so only the error is sent
            return to_line(["t", "raised", ["t", *names[:20]], message])

    def _arguments(self, error: BaseException, message: str) -> Any:
        """Return the error's arguments if they are plain and make the same message in the built-in class, or else the
        message.
        """
        try:
            kind = next(each for each in type(error).__mro__ if each.__module__ == "builtins")
            given = tuple(error.args)
            if isinstance(error, OSError) and error.filename is not None:
                given = (*given, error.filename)
            plain = all(type(each) in _PLAIN for each in given) and str(kind(*given)) == message
            return self._objects.wrap(given) if plain else message
        except Exception:  # a class of the answer decides what happens here
            return message

    def _reply(self, kind: str, *more: Any) -> bytes:
        changes: list[Any] = ["l"]
        for number, before in enumerate(self._before):
            changed = self._objects.known[number]
            if not _same(before, changed):
                changes.append(["t", number, self._objects.content(type(changed), changed)])
        return to_line(["t", kind, *more, *([changes] if len(changes) > 1 else [])], self._most)

    def decode_reply(self, line: bytes) -> tuple[Any, ...]:
        """Return the answer's reply, and apply its changes to the arguments. Raises ``CodecError`` if it is invalid."""
        data = from_line(line, self._most)
        if type(data) is not list or not 3 <= len(data) <= 5 or data[0] != "t":
            raise CodecError("a line that is not a reply")
        kind, parts = data[1], _PARTS.get(data[1] if type(data[1]) is str else "")
        if parts is None or not 0 <= len(data) - 2 - parts <= (kind in ("returned", "raised")):
            raise CodecError("a line that is not a reply")
        reported = [self._objects.load(each) for each in data[2 : 2 + parts]]
        for container, content in [self._change(each) for each in _listed(data[2 + parts :])]:
            replace(container, content)
        return (kind, *reported)

    def _change(self, data: Any) -> tuple[Any, Any]:
        if type(data) is not list or len(data) != 3 or data[0] != "t" or type(data[1]) is not int:
            raise CodecError("an invalid change")
        if not 0 <= data[1] < self._argument_count:
            raise CodecError("a change of something that is not an argument")
        container = self._objects.known[data[1]]
        return container, self._objects.replacement(container, data[2])


_PARTS = {"returned": 1, "raised": 2, "refused": 1, "unequal": 1}


def _listed(rest: list[Any]) -> list[Any]:
    if not rest:
        return []
    if type(rest[0]) is not list or rest[0][:1] != ["l"]:
        raise CodecError("changes that are not a list")
    return rest[0][1:]


def _content(container: Any) -> Any:
    """Return a copy of a container's content; copying hashes nothing."""
    if isinstance(container, dict):
        return [*container.keys(), *container.values()]
    return bytes(container) if isinstance(container, bytearray) else list(container)


def _same(before: Any, container: Any) -> bool:
    now = _content(container)
    if isinstance(container, bytearray):
        return bool(before == now)
    return len(before) == len(now) and all(map(is_, before, now))
