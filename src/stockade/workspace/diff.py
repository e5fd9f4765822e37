"""Show changes as a unified diff, in bounded time for any content."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stockade.workspace.changes import Change, type_of

_BUDGET = 4_000_000
"""The most pairs of lines that are compared in all. Beyond it, everything from the first to the last difference of a
file is shown as replaced.
"""


def diff(changes: Sequence[Change]) -> str:
    """Return ``changes`` in the format of git; a file that is not text is only named."""
    left = _BUDGET
    pieces: list[str] = []
    for change in (part for each in changes for part in _parts(each)):
        pieces += _header(change)
        if change.type != "file" or not _is_shown(change):
            continue
        old, new = _lines(change.before), _lines(change.content)
        cost = _cost(old, new)
        body = list(_replaced(old, new) if cost > left else difflib.unified_diff(old, new, "", "", n=3))
        left -= 0 if cost > left else cost
        pieces += _body(change, body)
    return "".join(pieces)


def _parts(change: Change) -> Iterator[Change]:
    """Yield a change of type in two parts, as git does: the old file is deleted, and the new one is added."""
    old = None if change.kind != "changed" or change.old_mode is None else type_of(change.old_mode)
    if old is None or old == change.type:
        yield change
        return
    yield replace(change, kind="deleted", type=old, mode=None, content=None, target=None)
    yield replace(change, kind="added", before=None, old_mode=None)


def _is_shown(change: Change) -> bool:
    had = change.old_mode is not None and stat.S_ISREG(change.old_mode)
    return change.is_text and not (had and change.before is None)


def _header(change: Change) -> Iterator[str]:
    old, new = _name(f"a/{change.path}"), _name(f"b/{change.path}")
    if change.type == "folder":
        yield f"folder {change.kind}: {_name(change.path)}\n"
    elif change.type == "link":
        yield f"link {change.kind}: {_name(change.path)}" + (f" -> {_name(change.target)}\n" if change.target else "\n")
    else:
        yield f"diff --git {old} {new}\n"
        yield from _modes(change)
        if not _is_shown(change):
            yield f"Binary files {old} and {new} differ\n"


def _modes(change: Change) -> Iterator[str]:
    if change.kind == "added":
        yield f"new file mode {_git_mode(change.mode)}\n"
    elif change.kind == "deleted":
        yield f"deleted file mode {_git_mode(change.old_mode)}\n"
    elif _git_mode(change.mode) != _git_mode(change.old_mode):
        yield f"old mode {_git_mode(change.old_mode)}\nnew mode {_git_mode(change.mode)}\n"


def _git_mode(mode: int | None) -> str:
    return "100755" if (mode or 0) & 0o100 else "100644"


def _body(change: Change, lines: Sequence[str]) -> Iterator[str]:
    if not lines:
        return
    yield "--- /dev/null\n" if change.kind == "added" else f"--- {_name('a/' + change.path)}\n"
    yield "+++ /dev/null\n" if change.kind == "deleted" else f"+++ {_name('b/' + change.path)}\n"
    for line in lines[2:]:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _replaced(old: list[str], new: list[str]) -> Iterator[str]:
    """Show everything between the first and the last difference as replaced, without a search."""
    same = _common(old, new)
    end = min(_common(old[::-1], new[::-1]), len(old) - same, len(new) - same)
    gone, come = old[same : len(old) - end], new[same : len(new) - end]
    yield from ("", "")
    yield f"@@ -{same + bool(gone)},{len(gone)} +{same + bool(come)},{len(come)} @@\n"
    yield from (f"-{line}" for line in gone)
    yield from (f"+{line}" for line in come)


def _cost(old: list[str], new: list[str]) -> int:
    return len(old) * len(new)


def _common(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _lines(content: bytes | None) -> list[str]:
    """Split at newlines only: other line separators are content."""
    text = (content or b"").decode("utf-8", "replace")
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _name(path: str) -> str:
    """Quote a name as git does, if it contains line breaks or unprintable characters."""
    if path.isprintable() and '"' not in path and "\\" not in path:
        return path
    return '"' + "".join(_quoted(letter) for letter in path) + '"'


def _quoted(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return letter if letter.isprintable() else "".join(f"\\{byte:03o}" for byte in letter.encode("utf-8", "replace"))
