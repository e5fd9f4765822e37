"""A call and its reply, each one line: what the test asks, and what the answer has returned and changed."""

from __future__ import annotations

from operator import is_
from typing import Any

from stockade.batch.isolated.codec import Objects, UnequalError, from_line, replace, to_line
from stockade.batch.isolated.scalars import CodecError, type_name


class Call:
    """One call of a function of the answer's, on either side of it."""

    def __init__(self, most: int) -> None:
        """``most`` bounds the bytes of each message."""
        self._most = most
        self._objects = Objects()
        self._before: list[Any] = []
        self._given = 0

    def ask(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
        """Return the call as a line. Raises ``CodecError`` where an argument cannot cross."""
        line = to_line(self._objects.wrap([name, list(arguments), named]), self._most)
        self._given = len(self._objects.known)
        return line

    def asked(self, line: bytes) -> tuple[str, list[Any], dict[str, Any]]:
        """Return what a line asks for, and note what the arguments hold."""
        name, arguments, named = self._objects.load(from_line(line, self._most))
        self._given = len(self._objects.known)
        self._before = [_content(each) for each in self._objects.known]
        return name, arguments, named

    def returned(self, value: Any) -> bytes:
        """Return the reply with a value and the changes; or one that says why these cannot cross."""
        try:
            return self._reply("returned", self._objects.wrap(value))
        except UnequalError as error:
            return to_line(["t", "unequal", str(error)])
        except CodecError as error:
            return to_line(["t", "refused", str(error)])
        except Exception as error:  # a value that cannot even be looked at
            why = f"a value of type {type_name(value)}; to look at it raises {type(error).__name__}"
            return to_line(["t", "refused", why])

    def raised(self, error: BaseException) -> bytes:
        """Return the reply with an error, the names of its classes first, and the changes."""
        names = [each.__name__ for each in type(error).__mro__ if isinstance(each.__name__, str)]
        try:
            message = str(error)[:1000]
        except Exception:
            message = ""
        try:
            return self._reply("raised", ["t", *names[:20]], message)
        except Exception:  # the changes cannot cross; the error matters more
            return to_line(["t", "raised", ["t", *names[:20]], message])

    def _reply(self, word: str, *more: Any) -> bytes:
        changes: list[Any] = ["l"]
        for number, before in enumerate(self._before):
            changed = self._objects.known[number]
            if not _same(before, changed):
                changes.append(["t", number, self._objects.content(type(changed), changed)])
        return to_line(["t", word, *more, *([changes] if len(changes) > 1 else [])], self._most)

    def reply(self, line: bytes) -> tuple[Any, ...]:
        """Return what the answer says, the changes applied to the arguments. Raises ``CodecError`` for nonsense."""
        data = from_line(line, self._most)
        if type(data) is not list or not 3 <= len(data) <= 5 or data[0] != "t":
            raise CodecError("a line that is not a reply")
        word, parts = data[1], _PARTS.get(data[1] if type(data[1]) is str else "")
        if parts is None or not 0 <= len(data) - 2 - parts <= (word in ("returned", "raised")):
            raise CodecError("a line that is not a reply")
        reported = [self._objects.load(each) for each in data[2 : 2 + parts]]
        for container, content in [self._change(each) for each in _listed(data[2 + parts :])]:
            replace(container, content)
        return (word, *reported)

    def _change(self, data: Any) -> tuple[Any, Any]:
        if type(data) is not list or len(data) != 3 or data[0] != "t" or type(data[1]) is not int:
            raise CodecError("a change that is not one")
        if not 0 <= data[1] < self._given:
            raise CodecError("a change of what was not an argument")
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
    """Return a copy of what a container holds that does not hash anything again."""
    if isinstance(container, dict):
        return [*container.keys(), *container.values()]
    return bytes(container) if isinstance(container, bytearray) else list(container)


def _same(before: Any, container: Any) -> bool:
    now = _content(container)
    if isinstance(container, bytearray):
        return bool(before == now)
    return len(before) == len(now) and all(map(is_, before, now))
