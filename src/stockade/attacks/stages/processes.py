"""Stages of other processes: victims, neighbouring runs, the warden, and the caller's environment."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stockade.api.job_arguments import job_from_source
from stockade.api.runner import Runner
from stockade.attacks import outside, policies
from stockade.attacks.world import StageError, World
from stockade.client import warden_process
from stockade.runs.result import Result

HOARD = 16 << 20
"""More bytes than any reader keeps that bounds its memory."""
_STANDS_SECONDS = 0.5
_PRIORITY = 10


def victim(world: World) -> Iterator[None]:
    """Start a process of the caller's user, with a secret in its environment and a canary open."""
    file = world.folder / "held"
    file.write_text(world.secret + "\n", encoding="utf-8")
    script = f"import sys, time; held = open({str(file)!r}); print('ready', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", script, world.marker + "-victim"],
        env={**os.environ, "VICTIM_SECRET": world.secret},
        stdout=subprocess.PIPE,
        cwd=world.folder,
    )
    assert process.stdout is not None
    process.stdout.readline()
    world.environment["ATTACK_VICTIM"] = str(process.pid)
    world.seen["killed"] = lambda: process.poll() is not None or outside.state(process.pid) in {"T", "t"}
    nice = os.getpriority(os.PRIO_PROCESS, process.pid)
    world.seen["reniced"] = lambda: os.getpriority(os.PRIO_PROCESS, process.pid) != nice
    world.seen.pop("survivors")  # the victim's own command line contains the marker
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        process.stdout.close()


def warden(world: World) -> Iterator[None]:
    """Take the warden of the confined run as the victim; in the control run, another process."""
    if world.beside is None:
        yield from victim(world)
        return
    pid = warden_process.current().pid
    world.environment["ATTACK_VICTIM"] = str(pid)
    world.seen["killed"] = lambda: outside.state(pid) in {"", "T", "t", "Z"}
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def reader(world: World) -> Iterator[None]:
    """Watch how much memory the reader of the result channel uses.

    The reader is the warden. In the control run it is the enclosure, which counts the bytes of the channel.
    """
    if world.beside is None:
        yield
        return
    pid = warden_process.current().pid
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")  # resets the peak (proc(5))
    before = _peak(pid)
    world.seen["hoarded"] = lambda: _peak(pid) - before > HOARD
    yield


def _peak(pid: int) -> int:
    """Return the peak memory of a process in bytes, or 0 if the process is gone."""
    fields = dict(line.partition(":")[::2] for line in outside.read(f"/proc/{pid}/status").splitlines())
    return int(fields.get("VmHWM", "0 kB").split()[0]) << 10


def real_time_for_all(world: World) -> Iterator[None]:
    """Let ordinary processes use real-time scheduling on this host."""
    before = resource.getrlimit(resource.RLIMIT_RTPRIO)
    most = max(before[1], _PRIORITY) if before[1] != resource.RLIM_INFINITY else before[1]
    resource.setrlimit(resource.RLIMIT_RTPRIO, (most, most))
    world.fresh_warden = True
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_RTPRIO, before)


_NEIGHBOUR = """
import os, socket, sys
marker = os.environ["ATTACK_MARKER"]
made = []
try:
    server = socket.socket(socket.AF_UNIX)
    server.bind("\\0" + marker); server.listen(1)
except OSError:
    pass
for folder in (os.environ.get("TMPDIR", "/tmp"), "/dev/shm"):
    try:
        with open(f"{folder}/{marker}", "w") as file:
            file.write(os.environ["ATTACK_HIDDEN"])
        made.append(file.name)
    except OSError:
        continue
try:
    print("ready", flush=True)
    sys.stdin.read()
finally:
    for path in made:
        os.unlink(path)
"""


def neighbour(world: World) -> Iterator[None]:
    """Start another run at the same time: in a sandbox, or for the control run as an ordinary process."""
    environment = {"ATTACK_MARKER": world.marker, "ATTACK_HIDDEN": world.secret}
    if world.beside is not None:
        yield from _neighbour_sandbox(environment, world)
        return
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _NEIGHBOUR, world.marker],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _neighbour_sandbox(environment: dict[str, str], world: World) -> Iterator[None]:
    box = Runner(policies.attacked({"limits": {"wall_time": 30}}), backend=world.beside)
    read, write = os.pipe()
    results: list[Result] = []
    with os.fdopen(read, "rb", buffering=0) as stdin:
        job = job_from_source(
            _NEIGHBOUR, stdin=stdin, environment=environment, interpreter=policies.interpreter(box.backend)
        )
        thread = threading.Thread(target=lambda: results.append(box.run_job(job)), daemon=True)
        thread.start()
        time.sleep(_STANDS_SECONDS)
        try:
            yield
        finally:
            os.close(write)
            thread.join()
    if not (results and results[0].ok and "ready" in results[0].stdout):
        raise StageError(f"the neighbouring run failed: {results}")


_PREDECESSOR = """
import os
for folder in ("/tmp", "/dev/shm", os.environ.get("TMPDIR", "/tmp"), "."):
    try:
        with open(f"{folder}/{os.environ['ATTACK_MARKER']}", "w") as file:
            file.write(os.environ["ATTACK_HIDDEN"])
    except OSError:
        continue
"""


def predecessor(world: World) -> Iterator[None]:
    """Complete a run before the attack: in a sandbox, or for the control run as an ordinary process."""
    environment = {"ATTACK_MARKER": world.marker, "ATTACK_HIDDEN": world.secret}
    if world.beside is not None:
        box = Runner(policies.attacked({}), backend=world.beside)
        own = policies.interpreter(box.backend)
        result = box.run_job(job_from_source(_PREDECESSOR, environment=environment, interpreter=own))
        if not result.ok:
            raise StageError(f"the earlier run failed: {result.summary()}")
        yield
        return
    command = [sys.executable, "-I", "-S", "-c", _PREDECESSOR]
    subprocess.run(command, env={**os.environ, **environment}, cwd=world.folder, check=True)
    try:
        yield
    finally:
        for folder in ("/tmp", "/dev/shm", os.environ.get("TMPDIR", "/tmp")):
            Path(folder, world.marker).unlink(missing_ok=True)


def host_name(world: World) -> Iterator[None]:
    """Give the program the host's name."""
    world.environment["ATTACK_HOST_NAME"] = os.uname().nodename
    yield


def no_walls(world: World) -> Iterator[None]:
    """Make the confined run see a host that offers no isolation."""
    world.no_walls = world.beside is not None
    yield


def caller_proxy(world: World) -> Iterator[None]:
    """Put a proxy with its password and the socket of an SSH agent into the caller's environment."""
    made = {"https_proxy": f"http://user:{world.secret}@127.0.0.1:9", "SSH_AUTH_SOCK": f"/run/{world.secret}"}
    before = {name: os.environ.get(name) for name in made}
    os.environ.update(made)
    world.fresh_warden = True
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def caller_secret(world: World) -> Iterator[None]:
    """Put a secret into the caller's own environment."""
    os.environ["ATTACKED_TOKEN"] = world.secret
    world.fresh_warden = True
    try:
        yield
    finally:
        del os.environ["ATTACKED_TOKEN"]
