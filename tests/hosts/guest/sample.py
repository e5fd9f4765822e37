"""The holder of each guarantee here, and the result of an attempt: prints one JSON object. Runs on every kind of host.

With ``--without landlock`` or ``--without seccomp``, the plan is made as if the kernel lacked it: a simulation.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import stockade
from stockade import Guarantee, Policy, Result
from stockade.client import warden_process

SECRET = "STOCKADE_SAMPLE_SECRET"
ABSTRACT = f"\0stockade-sample-{os.getpid()}"
_MARK = f"86399.{os.getpid()}"
_WIDE: dict[str, Any] = {"wall_time": 60, "cpu_time": 30}
_FORKS = (
    "import os, time\nn = 0\n"
    "try:\n"
    "    while n < 40:\n"
    "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"
    "        n += 1\n"
    "except OSError as e: print(e.strerror)\nprint(n, 'forked')"
)
_CONNECT = "import socket\ns = socket.socket({family})\ntry: s.connect({address!r}); print('connected')\nexcept OSError as e: print(e.strerror)"
_OPEN = "try: open({path!r}, {mode!r}); print('opened')\nexcept OSError as e: print(e.strerror)"
_BURN = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass"
_FILL = (
    "try:\n    with open('/tmp/f', 'wb') as f:\n        for _ in range(20): f.write(bytes(1 << 20))\n    print('all')\n"
    "except OSError as e: print(e.strerror)"
)
_STATUS = "for line in open('/proc/self/status'):\n    if line.startswith({name!r}): print(line.split()[1])"
_DAEMON = (
    "import os, subprocess\n"
    f"subprocess.Popen(['/bin/sleep', '{_MARK}'], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)\nprint('left')"
)
_HANDLES = (
    "kept = []\ntry:\n    while len(kept) < 100: kept.append(open('/dev/null'))\n    print('all')\n"
    "except OSError as e: print(e.strerror)"
)


@dataclass(frozen=True)
class Trial:
    """A run against one guarantee, and the check that it held."""

    what: str
    source: str
    held: Callable[[Result], bool]
    limits: dict[str, Any]


def main() -> None:
    """Print the plan and the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--without", action="append", default=[], choices=("landlock", "seccomp"))
    options = parser.parse_args()
    begin = time.monotonic()
    warden = warden_process.current()
    facts = warden.facts()
    warden._facts = replace(facts, **{name: type(getattr(facts, name))() for name in options.without})
    default = _hello(Policy())
    seconds = time.monotonic() - begin
    found = {"default": default, "seconds": seconds, "kernel": facts.kernel, "uid": facts.uid, "held": {}, "seen": {}}
    if facts.namespaces:
        found["held"], accept = _planned()
        with _world() as trials:
            found["seen"] = {name: _try(trial, name, accept) for name, trial in trials.items() if name not in accept}
    print(json.dumps(found))


def _hello(policy: Policy) -> dict[str, Any]:
    try:
        result = stockade.run("print(1)", policy=policy, backend="native")
    except stockade.StockadeError as error:
        return {"refused": str(error)}
    return {"outcome": str(result.outcome), "stdout": result.stdout, "error": result.error and result.error.message}


def _planned() -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return mechanism, strength and note of each guarantee, and the guarantees that nothing holds."""
    accept: dict[str, Any] = dict.fromkeys(map(str, Guarantee), "absent")
    policy = Policy(limits={"cpu_rate": 0.25, "stack": "8MiB"}, accept=accept)
    held = stockade.plan(policy, backend="native").enforcement
    return (
        {str(name): [item.mechanism, str(item.strength), item.note] for name, item in held.items()},
        {str(name): "absent" for name, item in held.items() if item.strength == "absent"},
    )


def _try(trial: Trial, name: str, accept: dict[str, str]) -> list[Any]:
    try:
        result = stockade.run(trial.source, policy=_policy(trial, accept), backend="native")
    except stockade.StockadeError as error:
        return [False, trial.what, str(error)]
    return [trial.held(result), trial.what, _came_to(result, name)]


def _policy(trial: Trial, accept: dict[str, str]) -> Policy:
    lowered: dict[str, Any] = {"memory": "supervisor"} | accept
    return Policy(limits=_WIDE | trial.limits, accept=lowered, on_output="kill")


def _came_to(result: Result, name: str) -> str:
    if name == "cpu_rate":
        return f"{_rate(result):.2f} cores used"
    what = f"{result.outcome}: {result.limit}" if result.limit else str(result.outcome)
    printed = " ".join(result.stdout.split())[:60] if name != "output" else ""
    message = f"{result.error.type}: {result.error.message}"[:80].strip(": ") if result.error else ""
    return ", ".join(filter(None, (what, printed, message)))


def _rate(result: Result) -> float:
    return float(result.usage.cpu_seconds or 0) / float(result.usage.wall_seconds or 1)


def _says(words: str) -> Callable[[Result], bool]:
    return lambda result: result.stdout.split("\n")[0] == words


def _met(limit: str) -> Callable[[Result], bool]:
    return lambda result: str(result.limit) == limit


def _ran_out(result: Result) -> bool:
    """The group's limit ends the run; RLIMIT_DATA refuses the process its memory."""
    return str(result.limit) == "memory" or (result.error is not None and result.error.type == "MemoryError")


@contextmanager
def _world() -> Iterator[dict[str, Trial]]:
    """Yield the trials, with their targets: a file, two listeners, a secret. We can reach each target."""
    os.environ[SECRET] = "1"
    with (
        socket.socket() as tcp,
        socket.socket(socket.AF_UNIX) as unix,
        tempfile.NamedTemporaryFile(dir="/var/tmp") as file,
    ):
        Path(file.name).chmod(0o644)
        tcp.bind(("127.0.0.1", 0))
        unix.bind(ABSTRACT)
        for listener in (tcp, unix):
            listener.listen()
        for kind, listener in ((socket.AF_INET, tcp), (socket.AF_UNIX, unix)):
            with socket.socket(kind) as control:
                control.connect(listener.getsockname())
        yield _trials(tcp.getsockname(), file.name)


def _trials(address: tuple[str, int], path: str) -> dict[str, Trial]:
    def connect(family: str, where: object) -> str:
        return _CONNECT.format(family=family, address=where)

    return {
        "cpu_time": Trial("a loop under 1 s", "while True: pass", _met("cpu_time"), {"cpu_time": 1}),
        "cpu_rate": Trial("2 s of work under 0.25 cores", _BURN, lambda r: 0.1 < _rate(r) < 0.35, {"cpu_rate": 0.25}),
        "wall_time": Trial("sleep under 1 s", "import time; time.sleep(60)", _met("wall_time"), {"wall_time": 1}),
        "memory": Trial("200 MiB under 64 MiB", "x = bytearray(200 << 20)", _ran_out, {"memory": "64MiB"}),
        "processes": Trial("40 forks under 8", _FORKS, lambda r: "7 forked" in r.stdout, {"processes": 8}),
        "open_files": Trial("100 files under 32", _HANDLES, _says("Too many open files"), {"open_files": 32}),
        "file_size": Trial("20 MiB under 1 MiB", _FILL, _says("File too large"), {"file_size": "1MiB", "disk": "64MiB"}),
        "disk": Trial("20 MiB under 4 MiB", _FILL, _says("No space left on device"), {"disk": "4MiB"}),
        "output": Trial("endless lines under 64 KiB", "while True: print('x' * 99)", _met("output"), {"output": "64KiB"}),
        "filesystem_read": Trial("a file of the host", _OPEN.format(path=path, mode="r"), _says("No such file or directory"), {}),
        "filesystem_write": Trial("a new file in /usr", _OPEN.format(path="/usr/x", mode="w"), _says("Read-only file system"), {}),
        "network": Trial("a listener on the host's 127.0.0.1", connect("socket.AF_INET", address), _says("Connection refused"), {}),
        "process_view": Trial("how many processes it sees", "import os; print(sum(map(str.isdigit, os.listdir('/proc'))))", _says("2"), {}),
        "ipc": Trial("an abstract socket of the host", connect("socket.AF_UNIX", ABSTRACT), _says("Connection refused"), {}),
        "privileges": Trial("its capabilities", _STATUS.format(name="CapPrm"), _says("0" * 16), {}),
        "syscalls": Trial("the filter in place", _STATUS.format(name="Seccomp:"), _says("2"), {}),
        "environment": Trial("a variable of the caller", f"import os; print({SECRET!r} in os.environ)", _says("False"), {}),
        "no_survivors": Trial("a process left behind", _DAEMON, lambda r: "left" in r.stdout and not _survives(), {}),
    }  # fmt: skip


def _survives() -> bool:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if _MARK.encode() in entry.read_bytes():
                return True
        except OSError:
            continue
    return False


if __name__ == "__main__":
    main()
