"""Report the verdict of ``stockade run``: the exit status, lines on standard error, the JSON object."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from stockade.cli.reporting import INTERRUPTED, READER_GONE, SETUP_FAILED, print_json, say
from stockade.core.errors import JobError, StockadeError
from stockade.core.strict_json import dumps

if TYPE_CHECKING:
    from stockade.cli.streams import PassedOn
    from stockade.policy.model import Policy
    from stockade.runs.job import Job
    from stockade.runs.result import Result

WALL_TIME = 124
OTHER_LIMIT = 137
_SIGNALLED = 128


class Receipt:
    """Writes the result object, separate from the guest's output. An error goes to the same places as a result."""

    def __init__(self, path: str | None, *, as_json: bool) -> None:
        self.as_json = as_json
        self._path = path
        self._file: IO[str] | None = None
        self._misplaced = False

    @property
    def shows_output(self) -> bool:
        """Whether the result object contains the guest's output."""
        return self.as_json or self._path is not None

    def __enter__(self) -> Receipt:
        """Return the receipt. Its file is opened later, when the guest's writable paths are known."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file. If an error ends the command, write that error to it."""
        if isinstance(error, StockadeError) and not self._misplaced:
            self._open()
            self._write(error.as_json())
        if self._file is not None:
            self._file.close()

    def open(self, policy: Policy) -> None:
        """Open the file before anything starts, so that a reader never finds the verdict of the last run.

        The file must not lie where the guest may write. Otherwise a guest could put a link there for the next run.
        """
        self._open(policy.filesystem.writable)

    def _open(self, writable: Sequence[str] = ()) -> None:
        if self._path is None or self._file is not None:
            return
        from stockade.workspace.host_files import HostFile

        try:
            with HostFile(self._path, "--result-file", writable) as place:
                fd = place.open(os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        except JobError:
            self._misplaced = True
            raise
        except OSError as error:
            self._misplaced = True
            raise JobError(f"--result-file {self._path}: {error.strerror}") from None
        self._file = os.fdopen(fd, "w", encoding="ascii")

    def verdict(self, result: Result, out: PassedOn, job: Job) -> int:
        """Report ``result`` and return its exit status."""
        data = result.as_json()
        self._write(data)
        if self.as_json:
            print_json(data)
            return status(result)
        if isinstance(out.lost, BrokenPipeError):
            return READER_GONE
        if out.lost is not None:
            say(f"standard output: {out.lost.strerror}")
            return SETUP_FAILED
        for line in _lines(result, job, out.passed):
            say(line)
        return status(result)

    def _write(self, data: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(dumps(data) + "\n")


def status(result: Result) -> int:
    """Return the exit status for ``result``."""
    from stockade.policy.guarantees import Guarantee
    from stockade.runs.result import Outcome

    match result.outcome:
        case Outcome.LIMIT_EXCEEDED:
            return WALL_TIME if result.limit is Guarantee.WALL_TIME else OTHER_LIMIT
        case Outcome.CRASHED:
            return _SIGNALLED + (result.signal or 0)
        case Outcome.CANCELLED:
            return INTERRUPTED
        case Outcome.SANDBOX_FAILED:
            return SETUP_FAILED
    return result.exit_code or 0


def _lines(result: Result, job: Job, passed: Mapping[int, int]) -> Iterator[str]:
    """Yield the lines for standard error, without anything that the guest's own exit status already shows."""
    from stockade.runs.result import Met, Outcome

    yield from map(str, result.denials)
    if result.denials_truncated:
        yield "further system calls were refused and not counted"
    written = (len(result.stdout_bytes) + result.stdout_omitted, len(result.stderr_bytes) + result.stderr_omitted)
    for name, omitted in (("output", written[0] - passed[1]), ("error", written[1] - passed[2])):
        if omitted and result.limit != "output":
            yield f"{omitted} bytes of standard {name} were omitted; --limit output=SIZE keeps more"
    if result.soft_memory is not None and result.soft_memory.state is Met.MET:
        yield f"memory passed its soft limit: {result.soft_memory.evidence}"
    if result.network is not None:
        yield from (f"network: {each.reason}{_times(each.count)}" for each in result.network.refusals)
        if result.network.error:
            yield f"network: {result.network.error}"
    if result.outcome is Outcome.CANCELLED:
        yield "interrupted"
    elif result.outcome not in (Outcome.COMPLETED, Outcome.FAILED):
        yield result.summary()
    elif job.argv and result.error is not None:  # the command was never started, so it printed nothing
        yield result.error.message.partition("] ")[2] or result.error.message


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""
