"""Resolve requirements and download their wheels by pip, outside of any sandbox. No code of a package runs.

pip reads the caller's own configuration, so it uses the caller's index, proxy and credentials. It may take wheels only:
a source distribution would run its build.
"""

from __future__ import annotations

import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from stockade.api.packages.store import digest_of
from stockade.api.packages.unpack import Wheel
from stockade.api.packages.wanted import name
from stockade.core.errors import RequirementError

SECONDS = 1800.0
_ASK_SECONDS = 60.0
_READ = 1 << 16
_STEP = re.compile(r"\s*(?:Collecting|Downloading|Using cached) (?P<what>[^\s(]+)")
_CONFLICT = re.compile(r"(?m)^ERROR: (Cannot install .+ because these package versions have conflicting dependencies)")
_MISSING = re.compile(r"No matching distribution found for (?P<requirement>.+?)(?: \(from .*)?$", re.MULTILINE)
_WHEEL = re.compile(r"[A-Za-z0-9._]+-[A-Za-z0-9._!+]+(-[0-9][A-Za-z0-9._]*)?(-[A-Za-z0-9._]+){3}\.whl")
_UNREACHABLE = ("NewConnectionError", "ConnectTimeout", "NameResolutionError", "ReadTimeout", "ProxyError", "SSLError",
                "Connection refused")  # fmt: skip


def command(interpreter: str) -> list[str]:
    """Return the command that runs pip for this interpreter.

    Raises ``RequirementError`` if this host has neither pip nor uv.
    """
    own = [] if os.path.realpath(sys.executable) == interpreter else ["--python", interpreter]
    if sys.executable and importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", *own]
    if has_pip(interpreter):
        return [interpreter, "-m", "pip"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "tool", "run", "--python", interpreter, "pip"]
    raise RequirementError(
        interpreter, "neither pip nor uv is installed, and one of them has to download packages",
        "install one: python -m ensurepip, or apt-get install python3-pip", field="requirements",
    )  # fmt: skip


def has_pip(interpreter: str) -> bool:
    """Return whether the interpreter has pip itself."""
    words = [interpreter, "-m", "pip", "--version"]
    return subprocess.run(words, capture_output=True, check=False, timeout=_ASK_SECONDS, cwd="/").returncode == 0


def download(
    requirements: Sequence[str], interpreter: str, place: Path, lock: int, on_step: Callable[[str], object]
) -> list[Wheel]:
    """Download the wheels of all requirements and of what they depend on into ``place``.

    pip inherits ``lock``, so that nobody removes ``place`` before it ends. ``on_step`` gets what pip is doing.
    """
    folder, log = place / "wheels", place / "pip.log"
    folder.mkdir()
    (place / "requirements.txt").write_text("\n".join(requirements) + "\n")
    words = [
        *command(interpreter), "--log", str(log), "download", "--only-binary=:all:", "--no-input", "--progress-bar=off",
        "--disable-pip-version-check", "--dest", str(folder), "--requirement", str(place / "requirements.txt"),
    ]  # fmt: skip
    status = _run(words, place, lock, on_step)
    if status:
        text = log.read_text(errors="replace") if log.exists() else ""
        raise _failure(requirements, text + (place / "errors").read_text(errors="replace"))
    wheels = [Wheel(path, digest_of(path)) for path in sorted(folder.iterdir())]
    for wheel in wheels:
        if _WHEEL.fullmatch(wheel.path.name) is None:
            raise RequirementError(wheel.path.name, "pip downloaded a file that is not a wheel", "name another version")
    return wheels


def _run(words: Sequence[str], place: Path, lock: int, on_step: Callable[[str], object]) -> int:
    environment = {"PIP_RETRIES": "2", "PIP_DEFAULT_TIMEOUT": "15", **os.environ, "PYTHONUNBUFFERED": "1"}
    with (place / "errors").open("wb") as errors:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, cwd=place / "wheels",
            env=environment, pass_fds=(lock,), start_new_session=True,
        )  # fmt: skip
    assert process.stdout is not None
    end, rest = time.monotonic() + SECONDS, b""
    try:
        while select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            data = os.read(process.stdout.fileno(), _READ)
            if not data:
                return process.wait(max(1.0, end - time.monotonic()))
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                found = _STEP.match(line.decode("utf-8", "replace"))
                if found:
                    on_step(found["what"])
        raise RequirementError("pip", f"the download did not end within {SECONDS:.0f} s", "try again")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()


def _failure(requirements: Sequence[str], log: str) -> RequirementError:
    """Return the error for what pip reports."""
    conflict = _CONFLICT.search(log)
    if conflict is not None:
        return RequirementError(", ".join(requirements), conflict[1], "loosen a version")
    if "DO NOT MATCH THE HASHES" in log:
        file = re.search(r"ERROR: THESE PACKAGES DO NOT MATCH.*?\n.*?(\S+) from ", log, re.DOTALL)
        value = file[1] if file else ", ".join(requirements)
        return RequirementError(value, "the file has another digest than it should have",
                                "do not use it before you know why; else correct the digest")  # fmt: skip
    if "require-hashes mode" in log:
        return RequirementError(
            ", ".join(requirements)[:200], "a digest is given for some packages, but not for all that are needed",
            "give name==version --hash=sha256:... for each, dependencies included",
        )  # fmt: skip
    if any(word in log for word in _UNREACHABLE):
        return RequirementError(
            ", ".join(requirements)[:200], "the package index cannot be reached",
            "check the network, or name an index of your own: PIP_INDEX_URL, PIP_FIND_LINKS",
        )  # fmt: skip
    missing = _MISSING.search(log)
    if missing is not None:
        return _missing(missing["requirement"], log)
    lines = [line for line in log.splitlines() if "ERROR" in line] or log.splitlines() or ["pip failed"]
    return RequirementError(
        ", ".join(requirements)[:200], f"pip failed: {lines[-1].strip()[-300:]}", "see 'pip download'"
    )


def _missing(requirement: str, log: str) -> RequirementError:
    wanted = name(requirement.split("--hash", maxsplit=1)[0].strip())
    if "requires a different Python" in log or "require a different python version" in log:
        return RequirementError(
            requirement, "no version of it is for this Python", "name another interpreter or version"
        )
    if any(_is_skipped(line, wanted) for line in log.splitlines()):
        return RequirementError(
            requirement, "it has no wheel for this Python and platform, and stockade builds nothing",
            "name another version, or build a wheel and put it into a folder of your own: PIP_FIND_LINKS",
        )  # fmt: skip
    versions = re.search(r"satisfies the requirement .*\(from versions: (?P<found>.+?)\)", log)
    if versions is not None and versions["found"] != "none":
        return RequirementError(
            requirement, f"there are only the versions {versions['found'][-200:]}", "name one of them"
        )
    return RequirementError(requirement, "no index has a package of this name", "check the spelling")


def _is_skipped(line: str, wanted: str) -> bool:
    """Return whether pip found a file of this package and could not take it: a source, or a wheel for others."""
    file = line.rpartition("/")[2].split("#")[0].lower().replace("_", "-")
    return "Skipping link: " in line and file.startswith(f"{wanted}-") and ("permitted" in line or "compatible" in line)
