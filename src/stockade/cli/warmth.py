"""Find out whether an interpreter can be kept warm here, and what it costs, by trying."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stockade.cli.doctor_text import say
from stockade.core.errors import StockadeError
from stockade.core.units import format_size


@dataclass(frozen=True)
class Warmth:
    """The cost of a warm interpreter under the default policy, after its first run."""

    usable: bool
    reason: str = ""
    """Why no warm interpreter is possible."""
    processes: int = 0
    memory: int | None = None
    """Bytes, by proportional share; ``None`` if this user may not read them."""

    def show(self) -> None:
        """Print the result as a sentence."""
        if not self.usable:
            say(f"Warm interpreters: not possible here: {self.reason}")
            return
        held = "memory that only root may read" if self.memory is None else f"{format_size(self.memory)} of memory"
        say(
            f"Warm interpreters: one for Python, with its idle workers, holds {held} in "
            f"{self.processes} processes; they end after a minute without a run."
        )


def found() -> Warmth:
    """Run one program from a warm interpreter, and count what it then holds."""
    from stockade.api import runner
    from stockade.client import warden_process
    from stockade.linux import descendants

    try:
        result = runner.Runner(backend="native", warm=True).run("1")
    except StockadeError as error:
        return Warmth(usable=False, reason=str(error))
    if not result.ok:
        return Warmth(usable=False, reason=result.error.message if result.error else str(result.outcome))
    pids = [pid for pid in descendants.below(warden_process.current().pid) if _is_copy(pid)]
    shares = [_share(pid) for pid in pids]
    known = [share for share in shares if share is not None]
    return Warmth(usable=True, processes=len(pids), memory=sum(known) if len(known) == len(pids) else None)


def _is_copy(pid: int) -> bool:
    try:
        return b"/job/.agent/" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _share(pid: int) -> int | None:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), None)
