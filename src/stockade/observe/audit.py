"""``Audit`` writes who ran what, under which policy, and how it ended, to a log that shows every later change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stockade.core import strict_json
from stockade.core.errors import JobError
from stockade.core.hints import known_options
from stockade.core.units import parse_size
from stockade.observe import chain
from stockade.observe.log_file import LogFile
from stockade.observe.records import MOST_TEXT, error_fields, finish_fields
from stockade.runs.hooks import Hooks, RunInfo
from stockade.workspace.host_files import HostFile

if TYPE_CHECKING:
    from stockade.runs.result import Result

_SMALLEST = 1 << 16


class Audit:
    """An append-only log of runs. Several processes may write to one log; each line is chained to the one before it.

    path: the file. A full one is renamed to ``path.1``, ``path.2`` and so on, and the chain goes on in a new file.
    text: write the program's text and the whole command as well, up to 64 KiB each. Without it the log has their
        SHA-256, and the name of the command's program. A text may hold what the log's readers should not see.
    sync: wait until each record is on the disk. Without it a record survives the end of the process, but perhaps not a
        loss of power.
    rotate: bytes, or a text such as ``"64MiB"``, at which a file is full; ``None`` means never.

    Pass it to ``stockade.configure(audit=...)``, or its ``hooks`` to a ``Runner``. A run whose start cannot be written
    does not start, and neither does one whose guest could write to the log.

    Raises ``JobError`` for a path that nobody may write to, and ``AuditError`` for a file that is not an audit log.
    """

    @known_options
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        text: bool = False,
        sync: bool = False,
        rotate: int | str | None = "64MiB",
    ) -> None:
        self._text = text
        self._log = LogFile(path, sync=sync, rotate=_size(rotate))
        self.hooks = Hooks(on_start=self._start, on_error=self._error, on_finish=self._finish)
        """The hooks that write the log."""

    def close(self) -> None:
        """Close the file. A later record opens it again."""
        self._log.close()

    def _start(self, info: RunInfo) -> None:
        writable = info.policy.filesystem.writable
        if writable:
            HostFile(self._log.path, "audit", writable).close()
        fields: dict[str, Any] = {"run": info.id, "kind": info.kind, "backend": info.backend, "labels": info.labels}
        if info.sandbox:
            fields["sandbox"] = info.sandbox
        if info.argv:
            fields["program"] = info.argv[0]
            fields |= self._content("argv", "\0".join(info.argv).encode("utf-8", "surrogateescape"))
        if info.source is not None:
            fields |= {"language": info.language} | self._content("source", info.source)
        with self._log.appending():
            policy = self._named("policy", info.policy.model_dump(mode="json"))
            self._log.append("start", fields | {"policy": policy, "uid": os.getuid(), "pid": os.getpid()})

    def _content(self, name: str, content: bytes) -> dict[str, Any]:
        found: dict[str, Any] = {f"{name}_sha256": chain.digest(content), f"{name}_bytes": len(content)}
        if self._text:
            found[name] = content[:MOST_TEXT].decode("utf-8", "replace")
        return found

    def _error(self, info: RunInfo, message: str) -> None:
        with self._log.appending():
            self._log.append("error", error_fields(info, message))

    def _finish(self, info: RunInfo, result: Result) -> None:
        fields = finish_fields(info, result)
        held = {name.value: [each.mechanism, each.strength.value] for name, each in result.enforcement.items()}
        with self._log.appending():
            self._log.append("finish", fields | {"receipt": self._named("receipt", held)})

    def _named(self, event: str, content: Mapping[str, Any]) -> str:
        """Return the digest of ``content``, which has a record of its own, once for each file and process."""
        name = strict_json.digest(content)
        if name not in self._log.named:
            self._log.append(event, {"sha256": name, "content": content})
            self._log.named.add(name)
        return name


def _size(rotate: int | str | None) -> int | None:
    if rotate is None:
        return None
    try:
        size = parse_size(rotate)
    except (TypeError, ValueError) as error:
        raise JobError(f"audit: rotate = {rotate!r}: {error}") from None
    if size == "unlimited":
        return None
    if size < _SMALLEST:
        raise JobError(f"audit: rotate = {rotate!r}: at least {_SMALLEST:,} bytes, or None")
    return size
