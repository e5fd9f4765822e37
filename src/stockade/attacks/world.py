"""What attacks need around them, made afresh for each trial: canaries, listeners, victims, and who saw what.

A stage is a function of a ``World`` that yields once; what it puts into ``environment``, ``read`` and ``write``, and
``fresh_warden`` goes to the program, to the policy and to the driver, and what it puts into ``seen`` is a question to
ask when the trial is over. The stages there are lie in ``stages/``.
"""

from __future__ import annotations

import ctypes
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from stockade.attacks import outside
from stockade.backends.base import Backend
from stockade.core.errors import StockadeError

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


class StageError(StockadeError):
    """What an attack needs around it could not be set up."""


class World:
    """One trial's surroundings."""

    def __init__(self, folder: Path, beside: Backend | None) -> None:
        """``beside`` is the backend of the confined run; ``None`` stands for the control."""
        self.folder = folder
        self.beside = beside
        self.secret = f"CANARY-{secrets.token_hex(16)}"
        self.marker = f"stk{secrets.token_hex(5)}"
        self.environment: dict[str, str] = {"ATTACK_MARKER": self.marker}
        self.read: list[str] = []
        self.write: list[str] = []
        self.pass_fds: list[int] = []
        self.filesystem: dict[str, Any] = {}
        """What the policy says of files beyond ``read`` and ``write``: a project as the workspace."""
        self.fresh_warden = False
        self.no_walls = False
        """Whether the confined run is to find a host on which no wall can be built."""
        self.seen: dict[str, Callable[[], bool]] = {"survivors": lambda: bool(outside.named(self.marker))}


def _remove(folder: Path) -> None:
    """Remove what programs may have made too deep for functions that call themselves."""
    subprocess.run(["rm", "-rf", "--", folder], check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def staged(names: Sequence[str], beside: Backend | None = None) -> Iterator[World]:
    """Yield a world in which the stages ``names`` are set, for the control or for a run on the backend ``beside``."""
    from stockade.attacks.stages import STAGES

    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=outside.prefix()))
        folder.chmod(0o755)  # nothing but the sandbox stands between a guest and what lies here
        stack.callback(_remove, folder)
        world = World(folder, beside)
        for name in names:
            stack.enter_context(contextmanager(STAGES[name])(world))
        yield world
