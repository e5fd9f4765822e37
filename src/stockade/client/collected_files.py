"""The files of a run, decoded from the collector's bytes and checked again."""

from __future__ import annotations

from stockade.core.launch import Collect
from stockade.warden.run import collector_records
from stockade.workspace.artifacts import Refused, shown


class CollectedFiles:
    """Decodes the collector's records and keeps the files, within the bounds of the order."""

    def __init__(self, order: Collect) -> None:
        self._order = order
        # Files that patterns asked for and changed files have a bound each, so together twice the bound.
        self._unpacker = collector_records.Unpacker(order.file_bytes, 2 * order.total_bytes)
        self._left = 2 * order.names + 2  # names that exist now, and names that existed before
        self._broken = ""
        self._ended = False
        self.files: dict[str, tuple[int, bytes]] = {}
        """Path to mode and content."""
        self.links: dict[str, str] = {}
        self.folders: dict[str, int] = {}
        self.fresh: set[str] = set()
        """New folders: everything that lay below these names before is gone."""
        self.deleted: set[str] = set()
        self.refused: list[Refused] = []
        self.error: str | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes. A fault in them is reported in ``error`` after ``close``."""
        if self._broken:
            return
        try:
            for kind, path, mode, body in self._unpacker.feed(data):
                self._take(kind, path, mode, body)
        except (collector_records.RecordError, UnicodeDecodeError) as error:
            self._broken = f"the collector sent malformed data: {error}"

    def close(self, trouble: str) -> None:
        """Note that the collector is gone. ``trouble`` is the warden's report of what went wrong."""
        wrong = self._broken or trouble or self.error
        if not (wrong or self._ended):
            wrong = "the collector ended early"
        self.error = wrong or None

    def _take(self, kind: bytes, path: bytes, mode: int, body: bytes) -> None:
        self._left -= 1
        if self._left < 0:
            raise collector_records.RecordError("more records than the order permits")
        if kind == collector_records.END:
            self._ended = True
            self.error = body.decode() or None
        elif kind == collector_records.REFUSED:
            self.refused.append(Refused(shown(path), body.decode()))
        elif not _is_text(path):
            self.refused.append(Refused(shown(path), "its name is not UTF-8"))
        else:
            self._keep(kind, path.decode(), mode & 0o777, body)

    def _keep(self, kind: bytes, path: str, mode: int, body: bytes) -> None:
        if path.startswith("/") or {"", ".", ".."} & set(path.split("/")) or "\0" in path:
            raise collector_records.RecordError(f"the path {path!r:.80} is not relative and plain")
        if kind == collector_records.FILE:
            self.files[path] = (mode, body)
        elif kind == collector_records.LINK:
            self.links[path] = body.decode("utf-8", "surrogateescape")
        elif kind == collector_records.DELETED:
            self.deleted.add(path)
        else:
            self.folders[path] = mode
            if kind == collector_records.FRESH_FOLDER:
                self.fresh.add(path)


def _is_text(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True
