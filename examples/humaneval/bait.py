"""Put up real things on this host that hostile answers reach for, and take them down again."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_VISIBLE_TO_ALL = 0o755


@dataclass
class Bait:
    """The bait that is up, by the names that answers use."""

    words: Mapping[str, str]
    file: Path
    listeners: tuple[socket.socket, ...] = field(repr=False)

    def touched(self) -> list[str]:
        """Return what was reached, in words; empty as long as the sandbox holds."""
        found = [] if self.file.exists() else [f"{self.file} is gone"]
        for listener in self.listeners:
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                continue
            found.append(f"somebody connected to {listener.getsockname()!r}")
        return found


@contextmanager
def laid() -> Iterator[Bait]:
    """Put up a file that anybody may read, two listeners and a secret in the environment of this process."""
    mark = secrets.token_hex(8)
    variable = f"HUMANEVAL_BAIT_{mark}"
    with ExitStack() as stack:
        # Prefer a folder outside /tmp: a sandbox has a /tmp of its own, which would hide the bait anyhow.
        place = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="humaneval-", dir=place)))
        folder.chmod(_VISIBLE_TO_ALL)
        file = folder / "bait"
        file.write_text("bait", encoding="utf-8")
        tcp = stack.enter_context(_listener(socket.AF_INET, ("127.0.0.1", 0)))
        abstract = stack.enter_context(_listener(socket.AF_UNIX, f"\0humaneval-{mark}"))
        os.environ[variable] = mark
        stack.callback(os.environ.pop, variable, None)
        yield Bait(
            words={
                "file": str(file),
                "port": str(tcp.getsockname()[1]),
                "abstract": f"humaneval-{mark}",
                "variable": variable,
                "started": _start_time(),
            },
            file=file,
            listeners=(tcp, abstract),
        )


def _listener(family: socket.AddressFamily, address: str | tuple[str, int]) -> socket.socket:
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen()
    listener.setblocking(False)
    return listener


def _start_time() -> str:
    """Return when this process was started, in ticks since boot: as good as a name. See proc_pid_stat(5)."""
    return Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
