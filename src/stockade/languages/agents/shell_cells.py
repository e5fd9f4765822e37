"""How the session agent speaks with a shell. It is copied into the sandbox, and loaded by ``session_agent.py``.

The shell is interactive, and its standard input is a pipe, which it reads byte by byte. For each command it reads one
line that runs the command, and one that writes the token, the status and the folder to a descriptor. The shell reads
the second line, and with it the token, only after the command has ended. The command has neither descriptor.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STATUS = 199  # see ``session_agent.py``
_LONGEST = 64 * 1024


def quoted(text: str) -> str:
    """Return a shell's word for any text."""
    return "'" + text.replace("'", "'\\''") + "'"


class Shell:
    """Turns commands into lines for a shell, and what it writes into frames."""

    tells_begin = False

    def __init__(self) -> None:
        start = "set +m +H +o history; history -c; unset HISTFILE; PS1= PS2=\n"
        self.first = (start + self._end("start")).encode()
        self._buffer = b""

    def request(self, request: dict[str, Any]) -> bytes:
        """Return the lines for one command."""
        word = quoted(request["source"])
        text = f"builtin history -s -- {word}; builtin eval {word} </dev/null {_STATUS}>&-\n" + self._end(
            request["token"]
        )
        return text.encode("utf-8", "surrogatepass")

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return a value frame (status and folder) and an end frame (token) for each command that ended."""
        self._buffer += data
        if len(self._buffer) > _LONGEST:
            raise ValueError("a status is too long")
        *records, self._buffer = self._buffer.split(b"\0")
        found = []
        for record in records:
            token, status, folder = (*record.split(b" ", 2), b"", b"")[:3]
            if token == b"start":
                found.append((b"h", b"{}"))
                continue
            value = {"status": int(status), "folder": folder.decode("utf-8", "replace")}
            found += [(b"v", json.dumps(value).encode()), (b".", token)]
        return found

    @staticmethod
    def _end(token: str) -> str:
        return f'builtin printf \'%s %s %s\\0\' {token} "$?" "$PWD" >&{_STATUS} 2>/dev/null\n'
