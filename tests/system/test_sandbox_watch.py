"""Changes in a folder of a living sandbox: complete, or lost with a word; bounded whatever the guest does."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

import stockade
from stockade import AsyncSandbox, FileChange, Sandbox, SessionEnded

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]
FLOOD = """
import os
for n in range({count}):
    name = f"src/{{n % 50}}-{long}"
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    os.unlink(name)
""".replace("{long}", "x" * 100)


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    with Sandbox.create(memory="256MiB", timeout=60) as made:
        yield made


@pytest.fixture
def sandbox(shared: Sandbox) -> Sandbox:
    shared.run_command(["sh", "-c", "rm -rf src; mkdir src"]).check()
    return shared


def changes(watch, seconds=10.0):
    """Yield the changes up to that of the file ``end``."""
    until = time.monotonic() + seconds
    while (change := watch.read(until - time.monotonic())).path != "end":
        yield change


def shell(sandbox, script):
    sandbox.run_command(["sh", "-ec", f"cd src; {script}; : > end"], timeout=60).check()


def test_watch_tells_kinds_and_order(sandbox):
    with sandbox.files.watch("src") as watch:
        shell(sandbox, "echo 1 > a; chmod 600 a; mv a b; rm b; mkdir c; : > c/not-watched")
        assert list(changes(watch)) == [
            FileChange("created", "a"),
            FileChange("written", "a"),
            FileChange("attributes", "a"),
            FileChange("renamed", "a", "b"),
            FileChange("removed", "b"),
            FileChange("created", "c"),
        ]
        sandbox.files.write("src/ours", "1")
        assert watch.read(10) == FileChange("written", "ours")
        with pytest.raises(TimeoutError, match="no change within"):
            watch.read(0.1)


def test_watch_follows_a_tree_through_moves(sandbox):
    sandbox.files.make_dir("src/one/two")
    with sandbox.files.watch("src", recursive=True) as watch:
        shell(
            sandbox,
            "echo > one/two/a; mv one uno; echo > uno/two/a; mkdir -p new/er; sleep 1; echo > new/er/b; ln -s / out",
        )
        found = list(changes(watch))
        assert FileChange("renamed", "one", "uno") in found
        written = dict.fromkeys(each.path for each in found if each.kind == "written")
        assert list(written) == ["one/two/a", "uno/two/a", "new/er/b"]
        assert FileChange("created", "new/er/b") in found
        assert not any(each.path.startswith("out/") for each in found)


def test_watch_of_too_many_folders_names_what_is_left_out(sandbox):
    sandbox.files.make_dir("src/kept")
    with sandbox.files.watch("src", recursive=True, max_folders=2) as watch:
        shell(sandbox, "mkdir more; echo > kept/a")
        found = list(changes(watch))
        assert FileChange("overflow", "more") in found
        assert FileChange("written", "kept/a") in found


def test_flood_of_changes_is_bounded_and_told(sandbox):
    """A guest that changes files faster than the caller reads costs neither side memory, and keeps nobody waiting."""
    with sandbox.files.watch("src", recursive=True) as watch:
        before = sandbox.usage().memory
        sandbox.run_command(["python3", "-c", FLOOD.replace("{count}", "25000")], timeout=60).check()
        assert sandbox.usage().memory - before < 32 << 20
        assert sandbox.run_command(["true"], timeout=20).ok
        kinds, most = [], 0
        with suppress(TimeoutError):
            while True:
                change = watch.read(1)
                kinds.append(change.kind)
                most = max(most, len(watch._waiting) * sys.getsizeof(change.path) + len(watch._process.stdout._waiting))
        assert kinds.count("overflow") >= 1
        assert len(kinds) < 50_000  # the guest made more changes
        assert most < 4 << 20
        shell(sandbox, "true")
        assert list(changes(watch)) == []


def test_flood_without_the_kernels_bound_would_tell_everything(sandbox):
    """Control: a caller that reads all the time loses nothing, so the flood above did overflow."""
    with sandbox.files.watch("src") as watch:
        process = sandbox.start_command(["python3", "-c", FLOOD.replace("{count}", "2000") + "open('src/end', 'w')"])
        kinds = [change.kind for change in changes(watch, 60)]
        process.kill()
        assert kinds == ["created", "removed"] * 2000


def test_guest_that_ends_its_watch_or_folder_is_told(sandbox):
    with sandbox.files.watch("src") as watch:
        sandbox.run_command(["rm", "-r", "src"]).check()
        with pytest.raises(SessionEnded, match="removed or moved"):
            list(watch)
    sandbox.files.make_dir("src")
    with sandbox.files.watch("src") as watch:
        sandbox.run_command(["sh", "-c", f"kill -9 {watch._process.pid}"]).check()
        with pytest.raises(SessionEnded, match="its agent has ended"):
            watch.read(10)


@pytest.mark.parametrize(
    ("path", "error"), [("nothing", FileNotFoundError), ("/etc/passwd", NotADirectoryError), ("", stockade.JobError)]
)
def test_watch_of_what_is_no_folder_raises(sandbox, path, error):
    with pytest.raises(error):
        sandbox.files.watch(path)


def test_asynchronous_watch():
    async def main():
        async with await AsyncSandbox.create(timeout=20) as sandbox:
            async with await sandbox.files.watch(".") as watch:
                with pytest.raises(TimeoutError):
                    await watch.read(0.1)
                await sandbox.run_command(["touch", "a"])
                async for change in watch:
                    assert change == FileChange("created", "a")
                    break
            with pytest.raises(SessionEnded, match="closed"):
                await watch.read()

    asyncio.run(main())
