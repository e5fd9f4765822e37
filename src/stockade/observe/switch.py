"""Write the kill switch of this account, which every warden reads (``linux.kill_switch``)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from stockade.core.errors import JobError
from stockade.linux import kill_switch


def path() -> Path:
    """Return the file of this account."""
    return Path(kill_switch.own_path(os.geteuid()))


def lines(*, comments: bool = False) -> list[str]:
    """Return the lines that mean something, and the comments on request; none if the switch is off."""
    return kill_switch.read(str(path()), comments=comments)


def lines_for(
    *,
    everything: bool = False,
    labels: Iterable[tuple[str, str]] = (),
    sandboxes: Iterable[str] = (),
    since: float | None = None,
) -> list[str]:
    """Return the lines that name these runs; ``since`` is in seconds since the epoch.

    Raises ``JobError`` for a name that no run can have.
    """
    found = ["all"] if everything else []
    found += [f"label {name}={value}" for name, value in labels]
    found += [f"sandbox {name}" for name in sandboxes]
    found += [] if since is None else [f"since {since:.3f}"]
    for line in found:
        if not line.isprintable() or line.endswith(" "):
            raise JobError(f"kill: {line!r} has a character that no label or id has")
    return found


def add(added: Sequence[str], reason: str | None) -> None:
    """Add lines to the switch, as a whole or not at all."""
    from stockade.workspace.host_files import HostFile

    file = path()
    file.parent.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    status = file.parent.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise JobError(f"{file.parent}: others can write there, so no switch in it would count; remove that folder")
    before = file.read_text().rstrip("\n").split("\n") if file.exists() else []
    comment = [f"# {' '.join(reason.split())}"] if reason else []
    with HostFile(file, "kill switch", follow=False) as opened:
        opened.write("\n".join([*before, *comment, *added, ""]).encode())


def lift() -> None:
    """Remove the switch."""
    path().unlink(missing_ok=True)
