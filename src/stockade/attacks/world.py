"""The surroundings of an attack, made anew for each trial: canaries, listeners, victims, and observations.

A stage (``stages/``) is a generator that gets a ``World`` and yields once. It fills in ``environment`` for the program,
``read`` and ``write`` for the policy, ``fresh_warden`` for the driver, and observations in ``seen``. The driver calls
the observations after the run.
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
    """A stage could not be set up."""


class World:
    """The state that the stages of one trial share with its driver."""

    def __init__(self, folder: Path, beside: Backend | None) -> None:
        """Make an empty world. ``beside`` is the backend of the confined run, or ``None`` for the control run."""
        self.folder = folder
        self.beside = beside
        self.secret = f"CANARY-{secrets.token_hex(16)}"
        self.marker = f"stk{secrets.token_hex(5)}"
        self.environment: dict[str, str] = {"ATTACK_MARKER": self.marker}
        self.read: list[str] = []
        self.write: list[str] = []
        self.pass_fds: list[int] = []
        self.filesystem: dict[str, Any] = {}
        """Fields of the policy's ``filesystem`` other than ``read`` and ``write``, such as the workspace."""
        self.secrets: dict[str, Sequence[str]] = {}
        """The hosts of each secret of the confined run, whose value is ``secret``."""
        self.fresh_warden = False
        self.no_walls = False
        """Whether the confined run must see a host that offers no isolation."""
        self.seen: dict[str, Callable[[], bool]] = {"survivors": lambda: bool(outside.named(self.marker))}


def _remove(folder: Path) -> None:
    """Remove ``folder`` with rm(1), because programs can nest folders too deep for a recursive function."""
    subprocess.run(["rm", "-rf", "--", folder], check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def staged(names: Sequence[str], beside: Backend | None = None) -> Iterator[World]:
    """Yield a world with the stages ``names``, for the control run or for a confined run on ``beside``."""
    from stockade.attacks.stages import STAGES

    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=outside.prefix()))
        folder.chmod(0o755)  # only the sandbox must stop a guest from reaching these files
        stack.callback(_remove, folder)
        world = World(folder, beside)
        for name in names:
            stack.enter_context(contextmanager(STAGES[name])(world))
        yield world
