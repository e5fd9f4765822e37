"""A real machine: what its guest sees and is held by, and what holds QEMU.

Booting and copying an emulated machine takes seconds of CPU time, so a few runs show many things each. ``make microvm``
runs the rest.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import host
from tests.support.facilities import KERNEL

import stockade
from stockade.attacks import corpus, trial
from stockade.attacks.trial import Verdict
from stockade.backends import registry
from stockade.backends.microvm import backend, build, machine
from stockade.linux import files

pytestmark = [pytest.mark.needs("machine"), pytest.mark.timeout(600)]
WHOLE = bool(os.environ.get("STOCKADE_WHOLE"))
WALL = {"wall_time": 200}
ATTACKS = (
    "filesystem_read/etc_shadow",
    "processes/fork_bomb",
    "disk/one_file",
    "memory/list",
    "network/metadata",
    "output/stdout_flood",
    "process_view/kill_init",
    "verdict/forged_report",
)
"""Attacks whose refusal does not depend on the time of a run."""


@pytest.fixture(scope="module", autouse=True)
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Build the machine in a cache folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache", numbered=True)))
        build.build(512, KERNEL)
        yield


SEEN = """
import os, sys, time
print(sys.stdin.read(), open('a/b.txt').read(), os.getcwd())
os.write(2, b'e' * 100_000)
{"kernel": os.uname().release, "random": os.urandom(16).hex(), "time": time.time(), "uid": os.getuid(),
 "disks": os.listdir('/sys/block') if os.path.exists('/sys/block') else [], "network": open('/proc/net/dev').read().count(':')}
"""


def test_untrusted_code_runs_on_a_kernel_of_its_own() -> None:
    box = stockade.Runner({"limits": WALL}, trust="untrusted")
    result = box.run(SEEN, stdin="input", files={"a/b.txt": b"file"})
    assert (result.outcome, result.stdout) == (stockade.Outcome.COMPLETED, "input file /workspace\n"), result
    assert result.stderr_truncated
    assert result.limits_met[stockade.Guarantee.OUTPUT].state.value == "met"
    seen = result.value
    assert seen["kernel"] != os.uname().release
    assert "cloud" in seen["kernel"]
    assert abs(seen["time"] - time.time()) < 200, "the clock of the host, not of the day when the machine was built"
    assert (seen["uid"], seen["disks"], seen["network"]) == (1000, [], 1)
    assert result.backend == "microvm"


def test_memory_limit_ends_a_guest_while_qemu_is_confined() -> None:
    code = "import time; time.sleep(1)\nkept = []\nwhile True: kept.append(bytes(1 << 20))"
    with stockade.Runner({"limits": WALL | {"memory": "48MiB"}}, backend="microvm").stream(code) as stream:
        assert host.eventually(lambda: bool(_confined()), 60), "a filter of stockade's own, and QEMU's"
        [qemu] = _confined()
        status = dict(line.split(":\t", 1) for line in files.read(f"/proc/{qemu}/status").splitlines() if ":\t" in line)
        interfaces = files.read(f"/proc/{qemu}/net/dev").count(":")
        namespaces = {name: str(Path(f"/proc/{qemu}/ns/{name}").readlink()) for name in ("net", "mnt", "pid", "ipc")}
        for _ in stream:
            pass
        result = stream.result
    assert set(status["Uid"].split()) & {str(os.geteuid())} == set()
    assert (status["CapEff"].strip("0"), status["CapBnd"].strip("0"), status["NoNewPrivs"]) == ("", "", "1")
    assert interfaces == 1
    assert all(str(Path(f"/proc/self/ns/{name}").readlink()) != value for name, value in namespaces.items())
    assert (result.outcome, result.limit) == (stockade.Outcome.LIMIT_EXCEEDED, stockade.Guarantee.MEMORY), result
    assert result.usage.peak_memory is not None
    assert result.usage.peak_memory <= 48 << 20
    assert host.eventually(lambda: not _named("qemu-system-x86"), 20)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_build_that_is_ended_leaves_no_machine(
    by: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = [sys.executable, "-m", "stockade", "images", "build", "microvm", "--packages", str(KERNEL)]
    process = subprocess.Popen(words)
    assert host.eventually(lambda: bool(_named("qemu-system-x86")), 60)
    [qemu] = _named("qemu-system-x86")
    process.send_signal(by)
    process.wait(30)
    assert host.eventually(lambda: host.state(qemu) in {"", "Z", "X"}, 30)
    for left in build.image.folder().iterdir():
        assert by is signal.SIGKILL, left
        os.utime(left, (0, 0))
    build._make(build.image.folder())
    assert not list(build.image.folder().iterdir()), "the next build removes it, when it is old"


def _named(name: str) -> list[int]:
    return [pid for pid in host.descendants(os.getpid()) if host.name(pid) == name[:15]]


def _confined() -> list[int]:
    found = _named("qemu-system-x86")
    return [pid for pid in found if "Seccomp_filters:\t2" in files.read(f"/proc/{pid}/status")]


if WHOLE:

    @pytest.mark.parametrize("name", ATTACKS)
    def test_attack_on_machine_is_held(name: str) -> None:
        [attack] = [each for each in corpus.load() if each.id == name]
        tried = trial.attempt(attack, registry.find("microvm"))
        assert tried.verdict is Verdict.REFUSED, tried

    def test_copies_share_random_numbers_only_without_the_greeting(monkeypatch: pytest.MonkeyPatch) -> None:
        box = stockade.Runner({"limits": WALL}, backend="microvm")
        code = "import os, random; [os.urandom(16).hex(), random.random()]"
        assert box.run(code).value != box.run(code).value
        program = Path(machine.__file__).read_bytes()
        silent = program.replace(b"bytearray(hello() + frame(", b"bytearray(frame(")
        assert silent != program
        monkeypatch.setattr(backend, "_program", lambda: silent)
        assert box.run(code).value == box.run(code).value, "the control: copies are equal"

    def test_input_larger_than_any_buffer_reaches_the_guest() -> None:
        box = stockade.Runner({"limits": WALL}, backend="microvm")
        result = box.run("import sys, zlib; zlib.crc32(sys.stdin.buffer.read())", stdin=os.urandom(8) * 400_000)
        assert (result.outcome, type(result.value)) == (stockade.Outcome.COMPLETED, int), result

    def test_wall_time_ends_the_machine() -> None:
        result = stockade.run("while True: pass", backend="microvm", timeout=20)
        assert (result.limit, result.usage.wall_seconds < 25) == (stockade.Guarantee.WALL_TIME, True), result
        assert not _named("qemu-system-x86")
