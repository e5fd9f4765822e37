"""Real runs in gVisor: the kernel that answers, the limits around it, what confines it, and what is left at the end.

``make gvisor`` tries all attacks.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import host

import stockade
from stockade import Guarantee, Outcome
from stockade.attacks import corpus, trial
from stockade.attacks.corpus import Attack
from stockade.attacks.internet import trials
from stockade.attacks.trial import Verdict
from stockade.backends import registry
from stockade.linux import files

pytestmark = [pytest.mark.needs("runsc"), pytest.mark.timing]
PYTHON = "/usr/bin/python3"
SCRIPT = "import stockade; print('ready', flush=True); stockade.run_command(['sleep', '61.5'], backend='gvisor')"
GROW = "kept = []\nwhile True: kept.append(bytes(1 << 20))"
FORKS = "import os, time\nfor _ in range(3000):\n  if os.fork() == 0: time.sleep(30)"
WHOLE = bool(os.environ.get("STOCKADE_WHOLE"))
ALL = [attack for attack in corpus.load() if trials.STAGE not in attack.stage]
"""Without the attacks on a way out, which the plan refuses."""
ATTACKS = [attack for attack in ALL if WHOLE or attack.id in ("network/tcp", "process_view/see")]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that each test leaves no process, mount, file or control group on the host."""
    with host.as_before():
        yield


SEEN = """
import os, sys
print(sys.stdin.read(), open('a/b.txt').read(), os.getcwd())
try:
    open('/usr/x', 'w')
except OSError as error:
    refused = error.errno
[os.uname().release, os.getuid(), refused, [line.split()[3] for line in open('/proc/mounts') if line.split()[1] == '/usr'][0][:3]]
"""


def test_kernel_that_answers_is_not_the_hosts() -> None:
    box = stockade.Runner({"isolation": "user_kernel"}, backend="gvisor")
    result = box.run(SEEN, stdin="input", files={"a/b.txt": b"file"}, interpreter=PYTHON)
    assert (result.outcome, result.stdout) == (Outcome.COMPLETED, "input file /workspace\n"), result
    release, *others = result.value
    assert release != os.uname().release
    assert others == [1000, 13, "ro,"]
    assert "Starting gVisor" in box.run_command(["dmesg"]).stdout


def test_ends_of_a_guest_are_told_apart() -> None:
    box = stockade.Runner(backend="gvisor")
    assert box.run_command(["sh", "-c", "exit 7"]).exit_code == 7
    missing = box.run_command(["nosuch"])
    assert (missing.error.type, missing.exit_code) == ("CommandNotFound", 127)
    killed = box.run_command(["sh", "-c", "kill -9 $$"])
    assert (killed.outcome, killed.signal) == (Outcome.CRASHED, signal.SIGKILL)
    noisy = box.run_command(["sh", "-c", "yes | head -c 300000"])
    assert (noisy.stdout_truncated, noisy.limits_met[Guarantee.OUTPUT].state.value) == (True, "met")


def test_runs_at_the_same_time_do_not_meet() -> None:
    box, results = stockade.Runner(backend="gvisor"), []
    runs = [threading.Thread(target=lambda: results.append(box.run_command(["sleep", "1"]))) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert all(result.ok for result in results), results


@pytest.mark.parametrize(
    ("source", "limits"),
    [
        (GROW, {"memory": "100MiB"}),
        (FORKS, {"processes": 8}),
        ("while True: pass", {"wall_time": 4}),
        ("while True: pass", {"cpu_time": 1.5}),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_limit_ends_gvisor_with_its_guest(source: str, limits: dict[str, object]) -> None:
    result = stockade.run(source, policy={"limits": limits}, backend="gvisor", interpreter=PYTHON)
    assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, next(iter(limits))), result


def test_limits_of_files_are_kept_by_gvisor() -> None:
    code = """
import os
def fill(path):
    with open(path, 'wb', 0) as file:
        try:
            while True: file.write(bytes(1 << 16))
        except OSError as error:
            return [error.errno, os.fstat(file.fileno()).st_size]
[fill('/dev/shm/a'), fill('b')]
"""
    limits = {"disk": "8MiB", "file_size": "3MiB"}
    result = stockade.run(code, policy={"limits": limits}, backend="gvisor", interpreter=PYTHON)
    assert result.value == [[28, 2 << 20], [27, 3 << 20]], result


@pytest.mark.parametrize("attack", [pytest.param(each, id=each.id) for each in ATTACKS])
def test_attack_in_gvisor_is_held(attack: Attack) -> None:
    tried = trial.attempt(attack, registry.find("gvisor"))
    if WHOLE and tried.confined is None:
        pytest.skip(tried.reason)  # the plan refuses what it asks for, or it does not succeed on this host at all
    assert tried.confined is not None, tried.reason
    assert tried.verdict in {Verdict.REFUSED, Verdict.ADMITTED}, tried.confined.what


def _sandbox(root: int) -> list[int]:
    """Return gVisor's kernel, once the guest sleeps in it: the first process of a guest has started the command."""
    exe = {pid: files.read(f"/proc/{pid}/cmdline") for pid in host.descendants(root) if host.name(pid) == "exe"}
    found = [pid for pid, words in exe.items() if words.startswith("runsc-sandbox")]
    return found if len([pid for pid, words in exe.items() if not words.startswith("runsc")]) > 2 else []


def test_gvisors_kernel_is_confined_until_killed() -> None:
    results: list[stockade.Result] = []
    run = threading.Thread(target=lambda: results.append(stockade.run_command(["sleep", "61.5"], backend="gvisor")))
    run.start()
    assert host.eventually(lambda: bool(_sandbox(os.getpid())), 20)
    [pid] = _sandbox(os.getpid())
    lines = files.read(f"/proc/{pid}/status").splitlines()
    status = {name: value for name, _, value in (line.partition(":\t") for line in lines)}
    spaces = [Path(f"/proc/{{}}/ns/{name}") for name in ("user", "mnt", "pid", "net", "ipc", "uts")]
    shared = [each for each in spaces if _of(each, pid) == _of(each, "self")]
    root = sorted(path.name for path in Path(f"/proc/{pid}/root").iterdir())
    processes = [path.name for path in Path(f"/proc/{pid}/root/proc").iterdir()]
    os.kill(pid, signal.SIGKILL)
    run.join(20)
    assert (status["Seccomp"], status["NoNewPrivs"], shared) == ("2", "1", [])
    assert str(os.geteuid()) not in status["Uid"].split()
    assert root == ["etc", "proc"]
    assert str(os.getpid()) not in processes
    assert results[0].outcome is Outcome.SANDBOX_FAILED
    assert "gVisor ended before the guest" in results[0].error.message


def _of(link: Path, pid: object) -> Path:
    return Path(str(link).format(pid)).readlink()


@pytest.mark.parametrize("victim", ["caller", "runsc"])
def test_kill_leaves_nothing_of_gvisor(victim: str) -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE) as caller:
        try:
            assert host.eventually(lambda: bool(_sandbox(caller.pid)), 20)
            tree = host.descendants(caller.pid)
            named = {host.name(pid): pid for pid in tree} | {"caller": caller.pid}
            os.kill(named[victim], signal.SIGKILL)
            inside = [pid for pid in tree if host.name(pid) != "stockade-warden"]
            assert host.eventually(lambda: not [pid for pid in inside if host.state(pid) not in {"", "Z", "X"}], 10)
        finally:
            caller.kill()
