"""Build the image of a machine: boot a kernel once, wait until the warden in it is ready, and save the machine's state.

Kernel, interpreter and programs are the host's own, from its packages. Nothing is downloaded and no rights are needed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stockade.backends.microvm import clock, image, machine
from stockade.backends.microvm.launching import empty_job
from stockade.backends.microvm.ramdisk import Ramdisk
from stockade.core.errors import BackendUnavailable
from stockade.core.strict_json import dumps

QEMU = "qemu-system-x86_64"
_BOOT_SECONDS = 300.0
_SAVE_SECONDS = 60.0
_THROWN_AWAY = 2
"""Jobs that run before the state is saved, so that every copy has done once what each run does."""
_MARGIN = 32 << 20
"""Memory of the machine that guests never get, so that its warden has enough."""
_LINE = (
    "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on audit=0 no_timer_check lpj=4000000 "
    "tsc=reliable tsc_early_khz={}"
)
"""An emulated processor needs no guard against flaws of real ones, and cannot measure its clock well."""
_ASK = (
    "import json, sys, sysconfig; "
    "print(json.dumps([sys.executable, sysconfig.get_path('stdlib'), sys.version_info[:2]]))"
)
_PYTHON = "/usr/bin/python3"
_OLDEST_PYTHON = (3, 11)  # of stockade's own code
_ABANDONED_SECONDS = 3600.0
"""The age of a build that was killed; none takes that long."""
_NOT_TO_OUTLIVE = ("setpriv", "--pdeathsig", "KILL", "--")
"""Before a command whose process must not outlive this one: a build that is killed ends no process itself."""
_WORK = "building."


def _silently(text: str) -> None:
    """Say nothing."""


def build(memory: int = 512, packages: Path = Path("/"), say: Callable[[str], object] = _silently) -> image.Image:
    """Build the image for a machine of ``memory`` MiB, and return it. This boots a machine, which takes a while.

    Below ``packages``, a kernel package is installed or unpacked.
    Raises ``BackendUnavailable`` with what to install, or with the last lines of the machine's console.
    """
    qemu, kernel, modules = _needed(packages)
    top = image.folder()
    try:
        _make(top)
        with tempfile.TemporaryDirectory(prefix=_WORK, dir=top) as name:
            work = Path(name)
            made = work / "image"
            made.mkdir()
            say(f"the initial file system, with the kernel {modules.name}")
            _write_ramdisk(work, modules)
            say("one boot, to the point where the machine waits for a job")
            found = _boot(qemu, kernel, work, image.state(made), memory)
            image.about(made).write_text(dumps(found, indent=2), encoding="utf-8")
            image.about(made).chmod(0o644)  # whatever the umask is
            made.chmod(0o711)
            _put(made, top / image.digest())
    except OSError as error:
        raise BackendUnavailable(f"the machine cannot be built in {top}: {error}") from None
    built = image.look()
    if built.trouble:
        raise BackendUnavailable(built.trouble)
    return built


def _make(top: Path) -> None:
    """Make the folder of images, and remove what killed builds have left in it."""
    top.parent.mkdir(0o711, parents=True, exist_ok=True)
    top.mkdir(0o711, exist_ok=True)
    for found in filter(None, map(image.trouble, (top, *top.parents))):
        raise BackendUnavailable(f"{found}; set XDG_CACHE_HOME to a folder that only you can write to")
    for work in top.glob(f"{_WORK}*"):
        if work.lstat().st_mtime < time.time() - _ABANDONED_SECONDS:
            shutil.rmtree(work, ignore_errors=True)


def _needed(packages: Path) -> tuple[str, Path, Path]:
    """Return QEMU, the newest kernel below ``packages``, and the folder of its modules."""
    qemu = shutil.which(QEMU)
    if qemu is None:
        raise BackendUnavailable(f"{QEMU} is not installed; apt install qemu-system-x86")
    for modules in sorted((packages / "lib/modules").glob("*-cloud-*"), key=_numbers, reverse=True):
        kernel = packages / "boot" / f"vmlinuz-{modules.name}"
        if os.access(kernel, os.R_OK):
            return os.path.realpath(qemu), kernel, modules
    raise BackendUnavailable(
        f"there is no kernel for a machine: no readable boot/vmlinuz-*-cloud-* with its lib/modules below {packages}; "
        "unpack Debian's package of that name (apt-get download, dpkg-deb -x), and name the folder: --packages FOLDER"
    )


def _numbers(path: Path) -> list[int]:
    return [int(text) for text in re.findall(r"\d+", path.name)]


def _write_ramdisk(folder: Path, modules: Path) -> None:
    answer = subprocess.run(
        [_PYTHON, "-I", "-c", _ASK], capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    try:
        executable, library, version = json.loads(answer.stdout)
    except ValueError:
        raise BackendUnavailable(f"{_PYTHON} does not work: {answer.stderr.strip()[-300:]}") from None
    if tuple(version) < _OLDEST_PYTHON:
        raise BackendUnavailable(f"{_PYTHON} is Python {version[0]}.{version[1]}; a machine needs 3.11 or newer")
    made = Ramdisk()
    made.add_python(os.path.realpath(executable), library)
    made.add_programs()
    made.add_modules(modules)
    made.add_tree(_compiled(folder / "code"), "opt/stockade")
    made.add("init", b"#!/usr/bin/python3 -ISB\n" + Path(__file__).with_name("inside.py").read_bytes(), executable=True)
    made.write(folder / "ramdisk")


def _compiled(folder: Path) -> Path:
    """Copy stockade's own code for the machine into ``folder``, and compile it with the machine's Python."""
    for package in image.PACKAGES:
        shutil.copytree(image.SOURCE / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    compiling = [_PYTHON, "-I", "-m", "compileall", "-q", str(folder)]
    subprocess.run(compiling, check=False, capture_output=True, timeout=60)  # it runs from source as well
    return folder


def _boot(qemu: str, kernel: Path, folder: Path, state: Path, memory: int) -> dict[str, Any]:
    """Boot the machine, save its state in the file ``state``, and return the description of the image."""
    link, link_end = socket.socketpair()
    monitor, monitor_end = socket.socketpair()
    console = folder / "console"
    command = [
        *_NOT_TO_OUTLIVE,
        qemu,
        *machine.arguments(memory, link_end.fileno(), monitor_end.fileno(), f"file,id=console,path={console}"),
        *("-kernel", str(kernel), "-initrd", str(folder / "ramdisk")),
        *("-append", _LINE.format(clock.counter_khz())),
    ]
    with link, monitor, (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(link_end.fileno(), monitor_end.fileno()),
        )
        try:
            link_end.close()
            monitor_end.close()
            ready = json.loads(_await(link, machine.READY))
            for _ in range(_THROWN_AWAY):
                link.sendall(machine.frame(machine.LAUNCH, empty_job(ready["facts"])) + machine.frame(machine.INPUT))
                _await(link, machine.END)
            control = machine.Monitor(monitor)
            version: Any = control.ask("query-version")
            _save(control, state)
        except (machine.MachineError, OSError, ValueError) as error:
            words = "\n".join(_tail(each) for each in (folder / "log", console))
            raise BackendUnavailable(f"the machine did not come up: {error}\n{words}".strip()) from None
        finally:
            process.kill()
            process.wait()
    return {
        "memory": memory,
        "free": max(0, int(ready["free"]) - _MARGIN),
        "qemu": qemu,
        "changed": Path(qemu).stat().st_mtime_ns,
        "version": ".".join(str(version["qemu"][part]) for part in ("major", "minor", "micro")),
        "facts": ready["facts"],
    }


def _await(link: socket.socket, wanted: int) -> bytes:
    """Return the content of the next frame of the kind ``wanted``."""
    frames = machine.Frames()
    until = time.monotonic() + _BOOT_SECONDS
    while True:
        link.settimeout(max(0.01, until - time.monotonic()))
        data = link.recv(machine.PIECE)
        if not data:
            raise machine.MachineError("QEMU ended")
        for kind, content in frames.feed(data):
            if kind == wanted:
                return content
            if kind == machine.TROUBLE:
                raise machine.MachineError(content.decode("utf-8", "replace"))


def _save(control: machine.Monitor, target: Path) -> None:
    """Write the state of the stopped machine, with its memory, into one file."""
    control.ask("stop")
    control.ask("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
    with target.open("wb") as file:
        os.fchmod(file.fileno(), 0o644)
        control.ask("getfd", fd=file.fileno(), fdname="state")
        control.ask("migrate", uri="fd:state")
        until = time.monotonic() + _SAVE_SECONDS
        while True:
            answer = control.ask("query-migrate")
            answer = answer if isinstance(answer, dict) else {}
            status = answer.get("status")
            if status == "completed":
                return
            if status in ("failed", "cancelled") or time.monotonic() > until:
                raise machine.MachineError(f"the state was not saved: {answer.get('error-desc', status)}")
            time.sleep(0.05)


def _put(made: Path, target: Path) -> None:
    """Move the finished image to its place; an older one of the same name makes way."""
    shutil.rmtree(target, ignore_errors=True)
    made.rename(target)


def _tail(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[-2000:]
    except OSError:
        return ""
