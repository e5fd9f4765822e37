"""The control run: an attack without the protection, in an enclosure that it cannot leave. There it must succeed.

Values of ``control.success``:

``exit``                the program exits with the sentinel for success (the default)
``alive``               the program still runs when its time is up
``delayed SECONDS``     a reader of the program's output has to wait at least that long
``bytes STREAM COUNT``  the program writes that many bytes to the stream
``status N``            the program exits with this status, which deceives a judge that trusts exit codes
``signal NAME``         the program dies of this signal

``control.collector`` is what a careless supervisor does with files that the program left. With ``write``, ``chmod`` or
``read``, it does this to the file ``answer``. With ``take``, it reads all files.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stockade.attacks import brought, build, corpus
from stockade.attacks.corpus import Attack
from stockade.attacks.half import Half
from stockade.attacks.stages.processes import HOARD
from stockade.attacks.world import World, staged
from stockade.core.strict_json import dumps

_ENCLOSURE = Path(__file__).with_name("enclosure.py")
_SECONDS = 20.0
_MOST_SECONDS = 60.0
_END_SECONDS = 5.0


def run(attack: Attack) -> Half:
    """Run the attack unconfined and return how it went. Processes that it leaves are killed."""
    with staged(attack.stage) as world:
        report = _enclosed(attack, world)
        if "error" in report:
            return Half(good=False, what=f"the enclosure failed: {report['error']}")
        missing = _unlike(attack.control.get("success", "exit"), report)
        if missing:
            return Half(good=False, what=f"{missing} {report['stdout'][-300:]} {report['stderr'][-600:]}")
        _add_observations(attack, world, report)
        unseen = [name for name in attack.observe if not world.seen[name]()]
        if unseen:
            what = f"not observed from outside: {', '.join(unseen)}; {report['stdout'][:300]}"
            return Half(good=False, what=what)
    return Half(good=True, what=report["stdout"].strip()[:200])


def _add_observations(attack: Attack, world: World, report: Mapping[str, Any]) -> None:
    """Add the observations that only the enclosure could make."""
    world.seen["victim_killed"] = lambda: report["victim_killed"]
    if attack.control.get("inside_victim"):
        world.seen["reniced"] = lambda: report["victim_reniced"]
    world.seen["hoarded"] = lambda: report["counts"]["channel"] > HOARD
    world.seen["survivors"] = lambda: any(world.marker in name for name in report["survivors"])
    world.seen["secret"] = lambda: world.secret in report["stdout"] + report["taken_text"]
    world.seen |= brought.questions(report["taken"])
    world.seen["blocked"] = lambda: report["blocked"]


def _enclosed(attack: Attack, world: World) -> dict[str, Any]:
    order = {
        "argv": _write_program(attack, world.folder / "work"),
        "folder": str(world.folder / "work"),
        "environment": {**os.environ, **_folders(world.folder / "work"), **world.environment},
        "namespaces": _namespaces(attack),
        "readonly": world.environment["ATTACK_READONLY"] if attack.control.get("readonly") else None,
        "address": attack.control.get("address"),
        "inside_victim": attack.control.get("inside_victim", False),
        "cover": attack.control.get("cover"),
        "collector": attack.control.get("collector"),
        "collected": world.environment.get("ATTACK_PROJECT", str(world.folder / "work")),
        "pass_fds": world.pass_fds,
        "timeout": attack.control.get("seconds", _SECONDS),
    }
    with _process(order) as process:
        output, complaint = process.communicate(timeout=_MOST_SECONDS)
    try:
        report: dict[str, Any] = json.loads(output)
    except ValueError:
        return {"error": complaint.decode("utf-8", "replace")[-800:]}
    return report


def _folders(folder: Path) -> dict[str, str]:
    """Return the variables that point a program to folders inside its enclosure."""
    (folder / "tmp").mkdir(mode=0o700)
    return {"HOME": str(folder), "TMPDIR": str(folder / "tmp")}


@contextlib.contextmanager
def _process(order: Mapping[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the process of the enclosure. On SIGTERM it kills everything that runs in it, then ends."""
    process = subprocess.Popen(
        [sys.executable, "-I", str(_ENCLOSURE), dumps(order)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=order["pass_fds"],
        start_new_session=True,  # the campaign decides what Ctrl-C does
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _write_program(attack: Attack, folder: Path) -> list[str]:
    """Write the program into ``folder`` and return the command that runs it."""
    folder.mkdir()
    if attack.kit is not None:
        (folder / attack.kit.name).write_bytes(attack.kit.read_bytes())
    if attack.language == "c":
        program = folder / "attack"
        program.write_bytes(build.program(attack.path.read_text(encoding="utf-8")))
        program.chmod(0o700)
        return [str(program)]
    program = folder / f"program{attack.path.suffix}"
    program.write_bytes(attack.path.read_bytes())
    interpreter = {
        "python": [getattr(sys, "_base_executable", sys.executable), "-B"],
        "shell": ["/bin/sh"],
        "ruby": ["ruby"],
        "javascript": ["node"],
    }[attack.language]
    return [*interpreter, str(program)]


def _namespaces(attack: Attack) -> list[str]:
    """Return the namespaces to create: always a mount namespace for root, and a user namespace first for others."""
    wanted = list(attack.control.get("namespaces", ()))
    if os.geteuid() == 0:
        return [*wanted, *([] if "mount" in wanted else ["mount"])]
    return ["user", *(name for name in wanted if name != "user")] if wanted else []


def _unlike(success: str, report: Mapping[str, Any]) -> str:
    """Return how the end of the control run differs from ``success``, or an empty text."""
    kind, *rest = success.split()
    status = report["status"]
    good = {
        "exit": lambda: status == corpus.SUCCEEDED,
        "alive": lambda: report["timed_out"],
        "delayed": lambda: status == corpus.SUCCEEDED and report["seconds"] >= float(rest[0]),
        "bytes": lambda: status == corpus.SUCCEEDED and report["counts"][rest[0]] >= int(rest[1]),
        "status": lambda: status == int(rest[0]),
        "signal": lambda: status == -signal.Signals[rest[0]],
    }[kind]()
    return "" if good else f"wanted {success!r}, got status {status} after {report['seconds']:.2f} s:"
