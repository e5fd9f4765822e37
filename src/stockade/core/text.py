"""Text of a stream whose middle was left out, cut between two characters."""

from __future__ import annotations

_LONGEST = 4
"""The most bytes that a character takes in UTF-8."""


def joined(head: bytes, tail: bytes, omitted: int) -> str:
    """Return head and tail as text, with a mark between them that shows how many bytes are missing.

    A character that the cut has split is left out as well, and its bytes are counted as missing.
    """
    end, begin = whole_end(head), whole_begin(tail)
    missing = omitted + len(head) - end + begin
    before, after = head[:end].decode("utf-8", "replace"), tail[begin:].decode("utf-8", "replace")
    return f"{before}\n[... {missing} bytes omitted ...]\n{after}"


def whole_head(head: bytes) -> str:
    """Return the head of a stream as text, without a partial character at its end."""
    return head[: whole_end(head)].decode("utf-8", "replace")


def whole_end(data: bytes) -> int:
    """Return the end of the last whole character. A partial character may follow it."""
    for back in range(1, min(_LONGEST, len(data) + 1)):
        begin = data[-back]
        if 0xC2 <= begin <= 0xF4:  # the first byte of a character encodes its length
            length = 2 if begin < 0xE0 else 3 if begin < 0xF0 else 4
            return len(data) - back if length > back else len(data)
        if not 0x80 <= begin < 0xC0:
            break
    return len(data)


def whole_begin(data: bytes) -> int:
    """Return the start of the first whole character. The rest of a split character may come before it."""
    at = 0
    while at < min(_LONGEST - 1, len(data)) and 0x80 <= data[at] < 0xC0:
        at += 1
    return at
