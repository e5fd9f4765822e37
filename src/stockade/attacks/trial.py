"""One attack, tried: first unconfined, where it must succeed, then confined, where it must meet its exact refusal.

What ``control.success`` may say: ``exit`` (the sentinel for success; the default), ``alive`` (still running when its
time is up), ``delayed SECONDS`` (whoever waits for its output waits that long), ``bytes STREAM COUNT``, ``status N``
(a judge that goes by exit codes is taken in), ``signal NAME``.

What a refusal may be:

``errno``               the program met the errno that it names, and said so by its sentinel
``limit GUARANTEE``     the run was ended, and the verdict names that limit
``crash SIGNAL``        the program died of that signal
``cut STREAM``          the program wrote all it wanted, and exactly the limit was kept
``prompt SECONDS``      the verdict is there by then, completed
``verdict WORDS``       the outcome is this, and the limit, exit code or signal that may follow
``A | B``               either of the two
``admitted WORD``       it is not refused, and the receipt says so: the enforcement's note has that word in it

These are for the native backend. Under another one an attack must not succeed, however it fails, unless that backend's
receipt says that the guarantee is not held; what the refusal is, its own tests say where it matters.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import stockade
from stockade.client import wardens
from stockade.attacks import corpus, world
from stockade.attacks.programs import kit
from stockade.attacks.corpus import Attack
from tests.support import host

_HERE = Path(__file__).parent
NATIVE = "native"
_SYSTEM_PYTHON = "/usr/bin/python3"  # a guest with another uid cannot go to root's own
_EXECUTE = (
    "import os\nfd = os.open('program', os.O_WRONLY | os.O_CREAT, 0o700)\n"
    "os.write(fd, open('attack', 'rb').read())\nos.close(fd)\nos.execv('./program', ['./program'])"
)
_CONTROL_SECONDS = 8.0
_WALL_SECONDS = 20.0


ADMITTED = {
    ("bubblewrap", "filesystem_write/device_times"): "set to now",
    ("bubblewrap", "disk/inodes"): "are not counted",
    ("bubblewrap", "disk/attributes"): "are not counted",
}
"""Attacks that succeed under a backend, with the words in the note that say so."""
_controls: dict[str, Half] = {}
"""Controls that were run, by the attack's id: one proves all confined runs."""


@dataclass(frozen=True)
class Half:
    """How one of the two runs went: as it must (``good``), and what was seen."""

    good: bool
    what: str
    admitted: bool = False
    """Not refused, and the receipt says so."""


@dataclass(frozen=True)
class Trial:
    """An attack, its control and its confined run, and what held it."""

    attack: Attack
    control: Half
    confined: Half
    mechanism: str
    strength: str

    @property
    def admitted(self) -> bool:
        return self.confined.admitted


def attempt(attack: Attack, backend: str = NATIVE) -> Trial:
    """Try ``attack``: the confined run proves nothing unless the control succeeds, and is then left out."""
    if attack.id not in _controls:
        _controls[attack.id] = run_control(attack)
    control = _controls[attack.id]
    plan = stockade.plan(_policy(attack, [], backend), backend=backend)
    held = plan.enforcement.get(attack.guarantee) if attack.guarantee in plan.enforcement else None
    mechanism = held.mechanism if held else "read by the warden, judged by the caller"
    refusal = attack.refusal_under(mechanism)
    if not control.good:
        confined = Half(good=False, what="not tried: the control did not succeed")
    else:
        confined = run_confined(attack, refusal, backend)
    strength = held.strength.value if held else "supervisor"
    return Trial(attack, control, confined, mechanism, strength)


def run_control(attack: Attack) -> Half:
    """Run the program with nothing but a throw-away place around it."""
    with world.staged(attack.stage, confined=False) as around:
        report = _enclosed(attack, around)
        if "error" in report:
            return Half(good=False, what=f"the enclosure failed: {report['error']}")
        missing = _unlike(attack.control.get("success", "exit"), report)
        if missing:
            return Half(good=False, what=f"{missing} {report['stdout'][-300:]} {report['stderr'][-600:]}")
        around.seen["victim_killed"] = lambda: report["victim_killed"]
        if attack.control.get("inside_victim"):
            around.seen["reniced"] = lambda: report["victim_reniced"]
        around.seen["survivors"] = lambda: any(around.marker in name for name in report["survivors"])
        around.seen["secret"] = lambda: around.secret in report["stdout"]
        unseen = [name for name in attack.observe if not around.seen[name]()]
        if unseen:
            return Half(
                good=False, what=f"nothing was seen from outside: {', '.join(unseen)}; {report['stdout'][:300]}"
            )
    return Half(good=True, what=report["stdout"].strip()[:200])


def run_confined(attack: Attack, refusal: str, backend: str = NATIVE) -> Half:
    """Run the program in a sandbox and compare what came of it with ``refusal``."""
    with world.staged(attack.stage, confined=True) as around:
        if around.fresh_warden:
            host.settle_warden()
        try:
            wardens.current()
            begin = time.monotonic()
            result = sandboxed(attack, around, backend)
            seconds = time.monotonic() - begin
        finally:
            if around.fresh_warden:
                host.settle_warden()
        met, unlike = _met(refusal, result, seconds, attack)
        if unlike and backend != NATIVE:
            met, unlike = _elsewhere(result, attack, seconds, backend)
        admitted = met.startswith("admitted")
        said = f"{result.stdout} {result.stderr} {result.value_repr} {result.error}"
        around.seen["secret"] = lambda: around.secret in said
        around.seen["victim_killed"] = lambda: result.exit_code == kit.SUCCEEDED
        if "survivors" in around.seen and around.seen["survivors"]():
            unlike = "something outlived the run"
        if not admitted:
            seen = [name for name in attack.observe if around.seen[name]()]
            if (seen or around.secret in said) and _is_admitted(result, attack, backend):
                met, unlike, admitted = "admitted", "", True
            elif seen or around.secret in said:
                unlike = f"seen from outside: {', '.join(seen)}"
    if unlike:
        return Half(good=False, what=f"expected {refusal!r}: {unlike}; {result.summary()}; {said[-800:]}")
    return Half(good=True, what=result.stdout.strip()[-200:] or result.summary(), admitted=admitted)


def sandboxed(attack: Attack, around: world.World, backend: str = NATIVE) -> stockade.Result:
    """Run the program in a sandbox."""
    policy = _policy(attack, around.read, backend)
    environment = {**around.environment, **attack.confined}
    if attack.language == "c":
        files: Mapping[str, bytes] = {"attack": compiled(attack)}
        command = ["/bin/sh", "-c", "chmod 700 attack && exec ./attack"]
        if backend != NATIVE:  # where no mode can be changed, one is given at birth
            command = [_SYSTEM_PYTHON, "-c", _EXECUTE]
        return stockade.run_command(command, policy=policy, files=files, environment=environment, backend=backend)
    files = {"kit.py": (_HERE / "programs" / "kit.py").read_bytes()} if attack.language == "python" else {}
    source = attack.path.read_bytes()
    own = None if backend == NATIVE or attack.language != "python" else _SYSTEM_PYTHON
    return stockade.run(
        source,
        language=attack.language,
        policy=policy,
        files=files,
        environment=environment,
        backend=backend,
        interpreter=own,
    )


def _policy(attack: Attack, read: list[str], backend: str = NATIVE) -> stockade.Policy:
    data = {key: dict(value) if isinstance(value, Mapping) else value for key, value in attack.policy.items()}
    data["limits"] = {"wall_time": _WALL_SECONDS, **data.get("limits", {})}
    data["filesystem"] = {"read": read, **data.get("filesystem", {})}
    if backend != NATIVE:  # whatever it holds; the receipt says how much that is
        data["accept"] = dict.fromkeys(map(str, stockade.Guarantee), "absent")
    return stockade.Policy.parse(data)


def _enclosed(attack: Attack, around: world.World) -> dict[str, Any]:
    folder = around.folder / "work"
    folder.mkdir()
    (folder / "kit.py").write_bytes((_HERE / "programs" / "kit.py").read_bytes())
    program = folder / f"program{attack.path.suffix}"
    program.write_bytes(attack.path.read_bytes())
    if attack.language == "c":
        (folder / "attack").write_bytes(compiled(attack))
        (folder / "attack").chmod(0o700)
    interpreter = getattr(sys, "_base_executable", sys.executable)
    argv = {
        "python": [interpreter, "-B", str(program)],
        "shell": ["/bin/sh", str(program)],
        "c": [str(folder / "attack")],
    }[attack.language]
    order = {
        "argv": argv,
        "folder": str(folder),
        "environment": {**os.environ, **around.environment},
        "namespaces": _namespaces(attack),
        "readonly": around.environment["ATTACK_READONLY"] if attack.control.get("readonly") else None,
        "address": attack.control.get("address"),
        "inside_victim": attack.control.get("inside_victim", False),
        "pass_fds": around.pass_fds,
        "timeout": attack.control.get("seconds", _CONTROL_SECONDS),
    }
    answer = subprocess.run(
        [sys.executable, "-I", str(_HERE / "enclosure.py"), json.dumps(order)],
        capture_output=True, timeout=60, check=False, pass_fds=around.pass_fds,
    )  # fmt: skip
    try:
        report: dict[str, Any] = json.loads(answer.stdout)
    except ValueError:
        return {"error": answer.stderr.decode()[-800:]}
    return report


def _namespaces(attack: Attack) -> list[str]:
    """Root gets a mount namespace of its own; others make a user namespace first where any is needed."""
    wanted = list(attack.control.get("namespaces", ()))
    if os.geteuid() == 0:
        return [*wanted, *([] if "mount" in wanted else ["mount"])]
    return ["user", *(name for name in wanted if name != "user")] if wanted else []


def compiled(attack: Attack) -> bytes:
    """Return the static program that a C source becomes."""
    return _compiled(attack.path)


@cache
def _compiled(path: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="stockade-test-") as folder:
        program = Path(folder) / "attack"
        subprocess.run(["gcc", "-static", "-O1", "-o", program, path], check=True, capture_output=True)
        return program.read_bytes()


def _unlike(success: str, report: Mapping[str, Any]) -> str:
    """Return how a control's end differs from ``success``; an empty text where it does not."""
    word, *rest = success.split()
    status = report["status"]
    good = {
        "exit": lambda: status == kit.SUCCEEDED,
        "alive": lambda: report["timed_out"],
        "delayed": lambda: status == kit.SUCCEEDED and report["seconds"] >= float(rest[0]),
        "bytes": lambda: status == kit.SUCCEEDED and report["counts"][rest[0]] >= int(rest[1]),
        "status": lambda: status == int(rest[0]),
        "signal": lambda: status == -signal.Signals[rest[0]],
    }[word]()
    return "" if good else f"wanted {success!r}, got status {status} after {report['seconds']:.2f} s:"


def _elsewhere(result: stockade.Result, attack: Attack, seconds: float, backend: str) -> tuple[str, str]:
    """Return how the attack fared under another backend than native."""
    if result.outcome is stockade.Outcome.SANDBOX_FAILED:
        return "", "the sandbox failed"
    if not _has_succeeded(result, attack, seconds):
        return "refused", ""
    if _is_admitted(result, attack, backend):
        return "admitted", ""
    return "", "the attack succeeded"


def _has_succeeded(result: stockade.Result, attack: Attack, seconds: float) -> bool:
    """Return whether the confined run shows what the control's success looks like."""
    word, *rest = attack.control.get("success", "exit").split()
    done = result.exit_code == kit.SUCCEEDED
    if word == "alive":
        return seconds >= _WALL_SECONDS - 1
    if word == "delayed":
        return done and seconds >= float(rest[0])
    if word == "bytes":
        return done and len(getattr(result, f"{rest[0]}_bytes", b"")) >= int(rest[1])
    if word == "status":
        return result.limit is None and result.exit_code == int(rest[0]) and result.ok
    if word == "signal":
        return result.limit is None and result.ok
    return done


def _is_admitted(result: stockade.Result, attack: Attack, backend: str) -> bool:
    """Return whether the receipt says that this is not held: the guarantee is absent, or its note has the words."""
    held = dict(result.enforcement).get(attack.guarantee)
    if held is None or backend == NATIVE:
        return False
    words = ADMITTED.get((backend, attack.id))
    return held.strength is stockade.Strength.ABSENT or (words is not None and words in held.note)


def _met(refusals: str, result: stockade.Result, seconds: float, attack: Attack) -> tuple[str, str]:
    """Return the refusal that was met out of ``refusals`` (``A | B``: either will do), or how the result differs."""
    differences = []
    for refusal in refusals.split(" | "):
        difference = _unlike_refusal(refusal, result, seconds, attack)
        if not difference:
            return refusal, ""
        differences.append(difference)
    return "", "; ".join(differences)


def _unlike_refusal(refusal: str, result: stockade.Result, seconds: float, attack: Attack) -> str:
    word, *rest = refusal.split()
    outcome = result.outcome.value
    if word == "errno":
        good = outcome == "failed" and result.exit_code == kit.REFUSED and "REFUSED" in result.stdout
    elif word == "limit":
        good = outcome == "limit_exceeded" and result.limit == rest[0]
    elif word == "crash":
        good = outcome == "crashed" and result.signal == signal.Signals[rest[0]] and result.limit is None
    elif word == "cut":
        kept, omitted = getattr(result, f"{rest[0]}_bytes"), getattr(result, f"{rest[0]}_omitted")
        limit = stockade.Policy.parse(dict(attack.policy)).limits.output
        good = len(kept) == limit and omitted > 0 and result.exit_code == kit.SUCCEEDED
    elif word == "prompt":
        good = outcome == "failed" and result.exit_code == kit.SUCCEEDED and seconds < float(rest[0])
    elif word == "verdict":
        return "" if _verdict_words(result) == rest else f"the verdict is {_verdict_words(result)}"
    elif word == "admitted":
        held = result.enforcement[stockade.Guarantee(attack.guarantee)]
        good = result.exit_code == kit.SUCCEEDED and rest[0] in held.note
        return "" if good else f"not admitted in the note: {held.note!r}"
    else:
        raise ValueError(f"{attack.id}: no such refusal: {refusal}")
    return "" if good else f"exit {result.exit_code}, {seconds:.2f} s"


def _verdict_words(result: stockade.Result) -> list[str]:
    words = [result.outcome.value]
    if result.limit is not None:
        words.append(result.limit.value)
    elif result.signal is not None:
        words.append(signal.Signals(result.signal).name)
    elif result.exit_code:
        words.append(str(result.exit_code))
    return words


def all_attacks() -> list[Attack]:
    """Return the corpus."""
    return corpus.load()
