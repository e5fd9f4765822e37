"""What a collector has found, put together from the bytes that it wrote."""

from __future__ import annotations

from stockade.core.launch import Collect
from stockade.warden.run import collector_records
from stockade.workspace.artifacts import Refused, shown


class CollectedFiles:
    """Takes bytes and keeps what they say, within the bounds that the order has set."""

    def __init__(self, order: Collect) -> None:
        self._order = order
        # What was asked for by pattern, and all that was changed, are bounded each by itself.
        self._unpacker = collector_records.Unpacker(order.file_bytes, 2 * order.total_bytes)
        self._left = 2 * order.names + 2  # those that are there, and those that were
        self._broken = ""
        self._ended = False
        self.files: dict[str, tuple[int, bytes]] = {}
        """Path to mode and content."""
        self.links: dict[str, str] = {}
        self.folders: dict[str, int] = {}
        self.fresh: set[str] = set()
        """Folders that have nothing of what lay below their names before."""
        self.deleted: set[str] = set()
        self.refused: list[Refused] = []
        self.error: str | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes; what is wrong with them is said in ``error`` at the end."""
        if self._broken:
            return
        try:
            for kind, path, mode, body in self._unpacker.feed(data):
                self._take(kind, path, mode, body)
        except (collector_records.RecordError, UnicodeDecodeError) as error:
            self._broken = f"what the process that brings files out has sent is nonsense: {error}"

    def close(self, trouble: str) -> None:
        """The collector is gone; ``trouble`` is what the warden has to say about it."""
        wrong = self._broken or trouble or self.error
        if not (wrong or self._ended):
            wrong = "the process that brings files out ended early"
        self.error = wrong or None

    def _take(self, kind: bytes, path: bytes, mode: int, body: bytes) -> None:
        self._left -= 1
        if self._left < 0:
            raise collector_records.RecordError("more records than names were asked for")
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
            raise collector_records.RecordError(f"a path {path!r:.80}")
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
