"""The part of a living sandbox that copies its files: snapshots and forks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

from stockade.api.pausing import Pausing
from stockade.api.process import WINDOW, Process
from stockade.api.sessions import agents
from stockade.api.sessions.link import Link
from stockade.api.sessions.opening import python_for_agents
from stockade.api.sessions.records import decoded
from stockade.api.snapshots import store, stream
from stockade.api.snapshots.store import Snapshot
from stockade.api.snapshots.stream import Check, SnapshotRefused
from stockade.backends.shared import living
from stockade.core.errors import JobError
from stockade.core.launch import Stdio
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from stockade.policy.model import Policy

_AGENT = "snapshot_agent.py"
_SECONDS = 600.0
_MOST_FORKS = 1000
_SCRATCH = "/tmp"


class Copies(Pausing):
    """The methods of ``Sandbox`` that copy its files."""

    policy: Policy
    _packages: str | None
    _start: Callable[..., Process]
    _fresh: Callable[[], Any]
    close: Callable[[], None]

    def snapshot(self, name: str | None = None, *, folder: str | os.PathLike[str] | None = None) -> Snapshot:
        """Keep the files of the sandbox: its workspace, its home and /tmp. Every process stands still meanwhile.

        The snapshot is a file of ``folder``, by default of the user's data folder, where ``name`` finds it again. It
        holds regular files, folders and links with their modes and times, and no process, device, set-id bit or
        capability. A workspace that is a folder of the host (``access="read"`` or ``"write"``) is left out.

        Raises ``SnapshotRefused`` if the files are more than a snapshot can hold, and ``OSError`` if it cannot be
        written.
        """
        name = store.checked_name(name)
        check = Check(most_bytes=_most_bytes(self.policy))
        answer: dict[str, Any] = {}
        with self._taken(answer) as frames:
            data = stream.packed(frames, check)
        skipped = answer.get("skipped")
        digest, path = store.save(data, folder, name)
        return Snapshot(digest, path, name, check.entries, check.bytes, skipped if isinstance(skipped, int) else 0)

    def fork(self) -> Self:
        """Return a new sandbox with copies of the files, and with the policy and arguments of this one.

        No process is copied: interpreters and servers start afresh, so random numbers and ids are new. Every process
        of this sandbox stands still meanwhile. The twins have nothing in common from then on. Raises what ``create``
        and ``snapshot`` raise.
        """
        return self.forks(1)[0]

    def forks(self, count: int) -> list[Self]:
        """Return ``count`` new sandboxes as ``fork`` does; the files are read once for all of them.

        The caller keeps the files in memory meanwhile, if ``count`` is more than one.
        """
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_FORKS:
            raise JobError(f"forks({count!r}): 1 to {_MOST_FORKS} sandboxes")
        kept: list[bytes] = []
        with ExitStack() as on_error:
            twins = [self._fresh()]
            on_error.callback(twins[0].close)
            with self._taken({}) as frames:
                sent = stream.batches(stream.checked(frames, Check(most_bytes=_most_bytes(self.policy))))
                twins[0]._restore(sent if count == 1 else _keeping(sent, kept))
            for _ in range(1, count):
                twins.append(self._fresh()._begun_with(kept))
                on_error.callback(twins[-1].close)
            on_error.pop_all()
        return twins

    @contextmanager
    def _taken(self, answer: dict[str, Any]) -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """Let every process stand still, and yield the frames of the files; ``answer`` gets the agent's last words."""
        with self._lock:
            paused = self.paused
            self.pause()
            try:
                with self._link({"serves": True}) as (link, _):
                    link.send(b"Q", {"operation": "take", "roots": self._roots()})
                    yield _frames(link, answer)
            finally:
                if not paused and self._result is None:
                    self.resume()

    def _begun_with_snapshot(self, data: bytes) -> Self:
        """Return this fresh sandbox with the files of a snapshot, or close it."""
        frames = _fitting(stream.unpacked(data, most_bytes=_most_bytes(self.policy)), self._roots())
        return self._begun_with(stream.batches(frames))

    def _begun_with(self, batches: Iterable[bytes]) -> Self:
        """Return this fresh sandbox with the files that checked frames make, or close it."""
        with ExitStack() as on_error:
            on_error.callback(self.close)
            self._restore(batches)
            on_error.pop_all()
        return self

    def _restore(self, batches: Iterable[bytes]) -> None:
        """Make the files of this fresh sandbox those of checked frames. Raises ``SnapshotRefused``."""
        with self._link({}) as (link, process):
            link.send(b"Q", {"operation": "put", "roots": self._roots()})
            for batch in batches:
                process.stdin.write(batch, timeout=_SECONDS)
            for _ in _frames(link, {}):
                raise SnapshotRefused("the agent for snapshots broke the protocol")

    def _roots(self) -> list[str]:
        """Return the folders of the guest's own. The first is that of the workspace, and empty if the host has it."""
        files = self.policy.filesystem
        own = files.way == "write" if files.workspace == "empty" else files.way in ("overlay", "copy")
        return [living.first_folder(self._made) if own else "", _SCRATCH]

    @contextmanager
    def _link(self, how: Mapping[str, Any]) -> Iterator[tuple[Link, Process]]:
        """Start the agent, and end it. Every error of its making is a ``SnapshotRefused``."""
        streams = {"stdio": Stdio(files={2: os.devnull}, window=WINDOW), "interactive": True, **how}
        limits = {"timeout": None, "cpu_time": None}
        command = agents.command(python_for_agents(self._packages))
        process = self._start(Process, command, streams, cwd="/", environment=None, **limits)
        try:
            yield Link(process, _AGENT, longest=stream.LONGEST_FRAME), process
        except TimeoutError:
            raise SnapshotRefused(f"the files could not be copied within {_SECONDS:g} s") from None
        except (EOFError, BrokenPipeError) as error:
            why = str(error) or process.wait(_SECONDS).summary()
            raise SnapshotRefused(f"the files could not be copied: {why}") from None
        except ValueError as error:
            raise SnapshotRefused(f"the agent for snapshots broke the protocol: {error}") from None
        finally:
            process.kill()


def _keeping(batches: Iterable[bytes], kept: list[bytes]) -> Iterator[bytes]:
    """Yield ``batches``, and add them to ``kept``."""
    for batch in batches:
        kept.append(batch)
        yield batch


def _fitting(frames: Iterable[tuple[bytes, bytes]], roots: list[str]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the frames of a snapshot. Raises ``SnapshotRefused`` if one belongs into a root that the sandbox lacks."""
    for kind, payload in frames:
        if not all(roots) and kind in (b"d", b"f", b"l", b"h") and not roots[decoded(payload)["in"]]:
            raise SnapshotRefused(
                "the snapshot holds a workspace, and that of this sandbox is a folder of the host; use "
                "access='overlay', access='copy', or no workspace"
            )
        yield kind, payload


def _most_bytes(policy: Policy) -> int:
    disk = policy.limits.figure(Guarantee.DISK)
    return stream.MOST_BYTES if disk is None else min(int(disk), stream.MOST_BYTES)


def _frames(link: Link, answer: dict[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the agent's frames up to its answer, which goes into ``answer``."""
    deadline = time.monotonic() + _SECONDS
    while True:
        kind, payload = link.receive(deadline)
        if kind == b"=":
            answer.update(decoded(payload))
            return
        if kind == b"x":
            raise SnapshotRefused(f"the files could not be copied: {str(decoded(payload).get('reason'))[:300]}")
        yield kind, payload
