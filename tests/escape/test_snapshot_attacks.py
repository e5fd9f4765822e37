"""Hostile snapshots: they lead nowhere outside, and cost no more than they may. Each attack has a control."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from stockade import Policy, Sandbox, Snapshot, SnapshotRefused
from stockade.api.sessions.link import frame
from stockade.api.snapshots import stream

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]
Frame = tuple[bytes, bytes]


def entry(kind: str, path: str, **more: Any) -> Frame:
    about = {"in": 1, "path": path, "mode": 0o644, "at": 0, **more}
    return kind.encode(), json.dumps(about).encode()


def file(path: str, content: bytes = b"planted", **more: Any) -> list[Frame]:
    return [entry("f", path, size=len(content), **more), (b"b", bytes(8) + content)]


def forged(frames: Iterable[Frame], entries: int = 1, size: int = 7) -> bytes:
    body = b"".join(frame(kind, payload) for kind, payload in (*frames, (b".", b"")))
    return b"stockade-snapshot 1 %d %d\n" % (entries, size) + zlib.compress(body)


def opened(data: bytes, folder: Path) -> Sandbox:
    path = folder / (hashlib.sha256(data).hexdigest() + ".snapshot")
    path.write_bytes(data)
    return Sandbox.create(snapshot=path)


def without_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every frame pass, whatever the totals are."""

    def take(self: stream.Check, kind: bytes, _payload: bytes) -> None:
        self.ended = kind == b"."

    monkeypatch.setattr(stream.Check, "take", take)
    monkeypatch.setattr(stream.Check, "entries", property(lambda _self: 1))
    original = stream.Check.__init__

    def start(self: stream.Check, **options: Any) -> None:
        original(self, **options)
        self.bytes = 7

    monkeypatch.setattr(stream.Check, "__init__", start)


@pytest.mark.parametrize(
    "frames",
    [
        file("../dev/shm/planted"),
        file("/dev/shm/planted"),
        [entry("d", "a", mode=0o755), *file("a/../../dev/shm/planted")],
        [entry("d", "..", mode=0o755)],
        file("a//b"),
        [entry("l", "a", target="/dev/shm"), *file("a/planted")],
        [*file("a"), *file("a")],
        [entry("h", "a", target=[1, "/etc/passwd"])],
        [entry("h", "a", target=[1, "../etc/passwd"])],
        file("a", mode=0o4755),
        file("a", **{"in": 2}),
        file("a", **{"in": -1}),
        [entry("c", "device")],
        [entry("f", "a", size=3), (b"b", bytes(8) + b"planted")],
        [entry("f", "a", size=1 << 63)],
        [(b"b", bytes(8) + b"planted")],
        [(b"f", b"[" * 50_000)],
        [(b"f", b"{}")],
        [entry("d", "/".join("d" * 200), mode=0o755)],
    ],
    ids=str,
)
def test_hostile_entries_are_refused(frames: list[Frame], tmp_path: Path) -> None:
    with pytest.raises(SnapshotRefused, match="the snapshot is refused"):
        list(stream.unpacked(forged(frames)))


def test_path_that_leads_outside_is_refused_by_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = forged(file("../dev/shm/planted"))
    with pytest.raises(SnapshotRefused, match="leads outside"):
        opened(data, tmp_path)
    without_check(monkeypatch)  # the control
    with opened(data, tmp_path) as sandbox:
        assert sandbox.files.exists("/dev/shm/planted")


def test_link_on_the_way_is_refused_even_without_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_check(monkeypatch)
    with opened(forged(file("a")), tmp_path) as sandbox:  # the control: such a snapshot opens
        assert sandbox.files.read_text("/tmp/a") == "planted"
    with pytest.raises(SnapshotRefused, match=r"a: (Not a directory|Too many levels)"):
        opened(forged([entry("l", "a", target="/dev/shm"), *file("a/planted")]), tmp_path)


def test_bomb_is_refused_after_a_small_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = bytes(8) + bytes(900_000)
    frames = [entry("f", "a", size=1 << 40), *[(b"b", zeros)] * 50]
    bomb = forged(frames)
    assert len(bomb) < 1 << 20
    assert len(zlib.decompress(bomb.partition(b"\n")[2])) > 40 << 20  # the control
    inflated = []
    original = stream._inflated

    def counted(data: bytes) -> Iterable[bytes]:
        for piece in original(data):
            inflated.append(len(piece))
            yield piece

    monkeypatch.setattr(stream, "_inflated", counted)
    with pytest.raises(SnapshotRefused, match="more than 7 bytes"):
        list(stream.unpacked(bomb))
    assert sum(inflated) < 2 << 20
    with pytest.raises(SnapshotRefused, match="raise its limit"):
        list(stream.unpacked(forged(frames, size=50 * 900_000), most_bytes=1 << 20))
    assert max(inflated) <= 1 << 18
    empty = forged([(b"d", b" " * 60_000)] * 4000, entries=4000)
    with pytest.raises(SnapshotRefused):
        list(stream.unpacked(empty))


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"no" + data[2:]])
def test_damaged_snapshot_is_refused(change: Callable[[bytes], bytes]) -> None:
    data = forged(file("a"))
    assert len(list(stream.unpacked(data))) == 3  # the control
    with pytest.raises(SnapshotRefused):
        list(stream.unpacked(change(data)))


def test_snapshot_that_was_changed_or_swapped_is_refused(tmp_path: Path) -> None:
    """Each file is a sound snapshot: only its digest shows that it is another one."""
    with Sandbox.create() as sandbox:
        sandbox.files.write("note", "mine")
        mine = sandbox.snapshot("mine", folder=tmp_path)
        sandbox.files.write("note", "evil")
        evil = sandbox.snapshot(folder=tmp_path)
    with Sandbox.create(snapshot=evil) as again:  # the control
        assert again.files.read_text("note") == "evil"
    evil.path.replace(mine.path)
    for wanted in (mine, mine.path):
        with pytest.raises(SnapshotRefused, match="another digest"):
            Sandbox.create(snapshot=wanted)
    mine.path.unlink()
    os.mkfifo(mine.path)
    with pytest.raises(SnapshotRefused, match="not a regular file"):
        Sandbox.create(snapshot=mine)
    mine.path.unlink()
    mine.path.symlink_to("/etc/passwd")
    with pytest.raises(SnapshotRefused, match="no such snapshot"):
        Sandbox.create(snapshot=mine)


def test_planted_link_is_not_written_through(tmp_path: Path) -> None:
    """An account that may write to the folder plants links at the names of a snapshot. The files behind them stay as they are."""
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    folder.mkdir()
    victim.write_text("kept")
    with Sandbox.create() as sandbox:
        sandbox.files.write("note", "x")
        snapshot = sandbox.snapshot("word", folder=folder)
        for each in (snapshot.path, folder / "word.name"):
            each.unlink()
            each.symlink_to(victim)
        sandbox.snapshot("word", folder=folder)
    assert victim.read_text() == "kept"
    with pytest.raises(SnapshotRefused):
        Sandbox.create(snapshot=snapshot)
    (folder / "plain").symlink_to(victim)
    (folder / "plain").write_text("lost")  # the control: what opens by name writes through it
    assert victim.read_text() == "lost"


def test_guests_links_to_the_host_stay_links(tmp_path: Path) -> None:
    with Sandbox.create() as sandbox:
        sandbox.run_command(["sh", "-c", "ln -s /etc/shadow shadow; ln -s / root; ln -s ../../.. up"]).check()
        snapshot = sandbox.snapshot(folder=tmp_path)
    assert (snapshot.entries, snapshot.bytes) == (3, 0)


def test_sparse_giant_is_bounded_by_what_it_holds(tmp_path: Path) -> None:
    policy = Policy(limits={"file_size": "unlimited"}, accept={"file_size": "absent"})
    with Sandbox.create(policy) as sandbox:
        sandbox.run_command(["truncate", "-s", "100G", "giant"]).check()
        snapshot = sandbox.snapshot(folder=tmp_path)
    assert snapshot.bytes == 0
    assert isinstance(snapshot, Snapshot)
    assert snapshot.path.stat().st_size < 10_000
