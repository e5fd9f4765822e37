"""The inner half of the executor: tools and variables of the host, for the code of an agent.

It is copied into the sandbox, behind the codec and ``values.py`` in one namespace. Standard library only.
"""

from __future__ import annotations

import base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stockade.embedded.worker.codec import decode, encode
    from stockade.integrations.smolagents.values import MOST_BYTES, packed, unpacked


class FinalAnswer(BaseException):
    """Ends a step, like the exception of the same purpose in smolagents."""


class Host:
    """Calls the executor outside, through its one host function."""

    def __init__(self, ask: Any, space: dict[str, Any]) -> None:
        self._ask, self._space = ask, space

    def ask(self, what: str, *values: Any) -> Any:
        """Send a request and return the answer."""
        data = encode(packed((what, *values)), MOST_BYTES)
        return unpacked(decode(base64.b64decode(self._ask(base64.b64encode(data).decode()))))

    def take_tools(self, names: list[str]) -> None:
        """Make a function of each tool."""
        for name in names:
            self._space[name] = self._tool(name)

    def take_variables(self) -> None:
        """Fetch the variables."""
        self._space.update(self.ask("variables"))

    def _tool(self, name: str) -> Any:
        def tool(*args: Any, **kwargs: Any) -> Any:
            value = self.ask("call", name, args, kwargs)
            if name == "final_answer":
                raise FinalAnswer
            return value

        tool.__name__ = tool.__qualname__ = name
        return tool
