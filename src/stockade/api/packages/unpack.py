"""Unpack wheels, each in a sandbox of its own, and put their files together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stockade.api.packages.frames import Files, Refused, Written
from stockade.core.errors import RequirementError

if TYPE_CHECKING:
    from stockade.policy.model import Policy
    from stockade.runs.result import Result

MIB = 1 << 20
MOST_PACKED = 2048 * MIB
MOST_UNPACKED = 8192 * MIB
MOST_RATIO = 60
"""The most bytes that one byte of a wheel may become. ``SMALL`` is always allowed."""
SMALL = 64 * MIB
_REMEDY = "leave the package out, or name another version of it"
_CODE = Path(__file__).with_name("unpacker.py")


@dataclass(frozen=True)
class Wheel:
    """A downloaded wheel."""

    path: Path
    digest: str

    @property
    def name(self) -> str:
        """The distribution's name and version: ``numpy 2.1.0``."""
        return " ".join(self.path.name.split("-")[:2])


@dataclass(frozen=True)
class Target:
    """An environment that is being made."""

    building: Path
    """The folder where it is made."""
    place: Path
    """The folder where it will lie."""
    site: str
    """The folder of its modules, relative to it."""
    interpreter: str


class Unpacking:
    """Unpacks wheels into one environment."""

    def __init__(self, target: Target, policy: Policy | None, on_wheel: Callable[[Wheel], object]) -> None:
        """``policy`` is that of the caller; what it accepts applies to the sandbox of a wheel as well."""
        self._target, self._policy, self._on_wheel = target, policy, on_wheel
        self._stopped = threading.Event()
        self.files: dict[str, Written] = {}
        self.left_out: list[str] = []

    def unpack(self, wheels: Sequence[Wheel]) -> None:
        """Unpack all of them. Raises ``RequirementError``, and then ends what is running."""
        with ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), 4)) as pool:
            futures = [pool.submit(self._unpack, wheel, self._target.building / str(number))
                       for number, wheel in enumerate(wheels)]  # fmt: skip
            try:
                self._wait(futures, wheels)
            except BaseException:
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        for number, wheel in enumerate(wheels):
            self._merge(wheel, self._target.building / str(number), futures[number].result())

    def _wait(self, futures: Sequence[Future[Files]], wheels: Sequence[Wheel]) -> None:
        reported: set[Future[Files]] = set()
        while len(reported) < len(futures):
            done, _ = wait([each for each in futures if each not in reported], timeout=0.2, return_when=FIRST_EXCEPTION)
            for each in done:
                each.result()
                self._on_wheel(wheels[futures.index(each)])
            reported |= done

    def _unpack(self, wheel: Wheel, folder: Path) -> Files:
        size = wheel.path.stat().st_size
        if size > MOST_PACKED:
            raise _refused(wheel, f"it has more than {MOST_PACKED // MIB} MiB")
        most = min(MOST_UNPACKED, max(SMALL, MOST_RATIO * size))
        folder.mkdir()
        files = Files(folder, most_bytes=most)
        try:
            result = self._run(wheel, files, most, size)
            if result.outcome.value == "failed":
                reason = result.stderr.strip().rpartition("\n")[2][:300]
                raise Refused(reason.encode("unicode_escape").decode() or f"the unpacker exits with {result.exit_code}")
            if result.outcome.value != "completed":
                raise Refused(f"unpacking it ends with {result.outcome.value} {result.limit or ''}".rstrip())
            files.finish()
        except Refused as error:
            raise _refused(wheel, str(error)) from None
        finally:
            files.close()
        return files

    def _run(self, wheel: Wheel, files: Files, most: int, size: int) -> Result:
        from stockade.api.runner import Runner
        from stockade.runs.events import Output

        runner = Runner(_policy(self._policy, most, size), warm=False)
        arguments = [str(self._target.place), self._target.site]
        with wheel.path.open("rb") as packed:
            stream = runner.stream(
                _CODE.read_bytes(), stdin=packed, arguments=arguments, interpreter=self._target.interpreter,
                report_seconds=0.2,
            )  # fmt: skip
            at = 0
            with stream:
                for event in stream:
                    if self._stopped.is_set():
                        raise Refused("another wheel was refused")
                    if isinstance(event, Output) and event.stream == 1:
                        if event.at != at:
                            raise Refused("a part of its files was lost")
                        at += len(event.data)
                        files.take(event.data)
                return stream.result

    def _merge(self, wheel: Wheel, folder: Path, files: Files) -> None:
        self.left_out += files.left_out
        for name, written in files.written.items():
            path = self._target.building / "env" / name
            known = self.files.setdefault(name, written)
            if known is not written:
                if known != written:
                    raise _refused(wheel, f"it has another {name!r:.120} than another package of the same set")
                continue
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if os.path.lexists(path):
                    raise FileExistsError
            except (FileExistsError, NotADirectoryError):
                raise _refused(wheel, f"its file {name!r:.120} would take the place of another") from None
            (folder / name).rename(path)


def _policy(given: Policy | None, most: int, size: int) -> Policy:
    from stockade.policy.model import Policy

    limits = {
        "cpu_time": 900, "wall_time": 900, "memory": 1024 * MIB + 2 * size, "output": most + MIB, "processes": 8,
    }  # fmt: skip
    if given is None:
        return Policy(limits=limits, on_output="kill")
    return Policy(limits=limits, on_output="kill", accept=given.accept, isolation=given.isolation)


def _refused(wheel: Wheel, reason: str) -> RequirementError:
    return RequirementError(wheel.path.name, f"the wheel is refused: {reason}", _REMEDY)
