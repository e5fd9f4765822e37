"""A machine in QEMU, which boots the image, runs commands as the kinds of caller, and is removed afterwards."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stockade.backends.microvm import clock
from tests.hosts import image
from tests.hosts.image import Image

MEMORY = "1536M"
CPUS = 2
_BOOT_SECONDS = {"kvm": 20.0, "tcg": 120.0}
_GRACE_SECONDS = 30.0
# "mitigations" would guard an emulated CPU against flaws that it has not.
_KERNEL_LINE = "console=ttyS0 quiet panic=-1 nokaslr mitigations=off random.trust_cpu=on audit=0 no_timer_check"
# On an emulated CPU, measuring the clock takes long and gives wrong results. So the guest gets its frequency, and
# that it can rely on it. An emulated CPU shows the counter of the real one.
_EMULATED_CLOCK = "lpj=4000000 tsc=reliable tsc_early_khz={}"


class MachineError(Exception):
    """Raised if the machine fails; the text ends with the last lines of its console."""


class Frozen(MachineError):
    """Raised if the machine does not answer at all, not even that the time is up."""


@dataclass(frozen=True)
class Answer:
    """The result of a command in the guest."""

    status: int
    output: str
    seconds: float
    timed_out: bool
    left: tuple[str, ...]
    """Groups and processes that were still there when the caller had ended."""
    stuck: tuple[str, ...]
    """Who was there, and what each waited for, when the time was up."""


class Machine:
    """A guest that boots anew after it froze."""

    def __init__(self, built: Image, folder: Path) -> None:
        self._image = built
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._talk: socket.socket | None = None
        self._pending = b""
        self._boots = 0
        self._setup: list[str] = []
        self.accelerator = self.kernel = self.controllers = ""
        self.boot_seconds = 0.0
        self.freezes = 0

    def boot(self) -> None:
        """Boot with hardware virtualization if it works here, which is tried once for each image and host kernel."""
        image.project_image(self._folder / "project.ext4")
        remembered = self._image.folder / f"no-kvm-{os.uname().release}"
        if os.access("/dev/kvm", os.R_OK | os.W_OK) and not remembered.exists():
            try:
                return self._boot("kvm")
            except MachineError:
                with suppress(OSError):  # somebody else's cache: then it is tried each time
                    remembered.write_text("a guest was booted with KVM on this kernel and did not come up\n")
        return self._boot("tcg")

    def prepare(self, argv: list[str]) -> None:
        """Run ``argv`` as root, now and after every later boot."""
        self._setup = argv
        answer = self._run("root", argv, 300.0, {}, lambda text: None)
        if answer.status:
            raise MachineError(answer.output)

    def run(
        self,
        caller: str,
        argv: list[str],
        *,
        seconds: float = 300.0,
        environment: dict[str, str] | None = None,
        show: Callable[[str], object] = lambda text: None,
    ) -> Answer:
        """Run ``argv`` as the kind ``caller`` (``guest/kinds.py``); ``show`` gets the output as it comes.

        An emulated machine freezes now and then. Then ``show`` gets a note, and the command runs again in a fresh one.
        """
        try:
            return self._run(caller, argv, seconds, environment or {}, show)
        except Frozen as error:
            self.freezes += 1
            print(f"the machine froze and is booted again: {error}", file=sys.stderr, flush=True)
            self.stop()
            self.boot()
            if self._setup:
                self.prepare(self._setup)
            return self._run(caller, argv, seconds, environment or {}, show)

    def stop(self) -> None:
        """Switch the machine off."""
        if self._talk is not None:
            self._talk.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._talk = self._process = None
        self._pending = b""

    def _run(
        self, caller: str, argv: list[str], seconds: float, environment: dict[str, str], show: Callable[[str], object]
    ) -> Answer:
        assert self._talk is not None
        job = {"caller": caller, "argv": argv, "environment": environment, "seconds": seconds}
        self._talk.settimeout(_GRACE_SECONDS)
        self._talk.sendall(json.dumps(job).encode() + b"\n")
        end = time.monotonic() + seconds + _GRACE_SECONDS
        parts: list[str] = []
        while True:
            message = json.loads(self._receive(end))
            if message["kind"] == "output":
                parts.append(message["text"])
                show(message["text"])
            elif message["kind"] == "exit":
                return Answer(
                    status=message["status"],
                    output="".join(parts),
                    seconds=message["seconds"],
                    timed_out=message["timed_out"],
                    left=tuple(message["left"]),
                    stuck=tuple(message["stuck"]),
                )
            else:
                raise MachineError(f"the guest's own part failed\n{message['text']}")

    def _boot(self, accelerator: str) -> None:
        begin = time.monotonic()
        self._boots += 1
        console, address, log = (self._folder / f"{name}-{self._boots}" for name in ("console", "talk", "qemu"))
        self._console = console
        with socket.socket(socket.AF_UNIX) as listener, log.open("wb") as out:
            listener.bind(str(address))
            listener.listen(1)
            listener.settimeout(10)
            command = _command(self._image, self._folder, accelerator, console, address)
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            try:
                self._talk, _ = listener.accept()
                hello = json.loads(self._receive(begin + _BOOT_SECONDS[accelerator]))
            except (TimeoutError, MachineError) as error:
                self.stop()
                raise MachineError(f"no boot with {accelerator}: {error}\n{_tail(log)}") from None
        self.accelerator, self.kernel, self.controllers = accelerator, hello["kernel"], hello["controllers"]
        self.boot_seconds = time.monotonic() - begin

    def _receive(self, end: float) -> bytes:
        """Return the next line from the guest; raise ``Frozen`` if no line comes before ``end``."""
        assert self._talk is not None
        while b"\n" not in self._pending:
            self._talk.settimeout(max(0.01, end - time.monotonic()))
            try:
                data = self._talk.recv(1 << 16)
            except TimeoutError:
                raise Frozen(f"no word from the guest in time\n{_tail(self._console)}") from None
            if not data:
                raise MachineError(f"the machine is gone\n{_tail(self._console)}")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line


@contextmanager
def booted(built: Image) -> Iterator[Machine]:
    """Boot a machine with the project's current tree, and remove everything of it afterwards."""
    with tempfile.TemporaryDirectory(prefix="stockade-hosts.") as folder:
        machine = Machine(built, Path(folder))
        try:
            machine.boot()
            yield machine
        finally:
            machine.stop()


def _command(built: Image, folder: Path, accelerator: str, console: Path, address: Path) -> list[str]:
    acceleration = "kvm" if accelerator == "kvm" else "tcg,thread=single,tb-size=512"
    kernel_line = _KERNEL_LINE
    if accelerator == "tcg":
        kernel_line += " " + _EMULATED_CLOCK.format(clock.counter_khz())
    disks = [("root", built.root), ("project", folder / "project.ext4")]
    # Not to outlive us; and one thread for both emulated CPUs: with one each, the machine froze every few minutes.
    command = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "qemu-system-x86_64",
        "-M",
        "microvm,acpi=on,rtc=on",
        "-accel",
        acceleration,
    ]
    command += ["-cpu", "host" if accelerator == "kvm" else "max,la57=off", "-smp", str(CPUS), "-m", MEMORY]
    command += ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", f"file:{console}"]
    command += ["-kernel", str(built.kernel), "-initrd", str(built.ramdisk), "-append", kernel_line]
    for name, path in disks:
        command += ["-drive", f"id={name},file={path},format=raw,if=none,snapshot=on,cache=unsafe"]
        command += ["-device", f"virtio-blk-device,drive={name},serial={name}"]
    command += ["-device", "virtio-rng-device", "-device", "virtio-serial-device"]
    command += ["-chardev", f"socket,id=talk,path={address}", "-device", "virtserialport,chardev=talk,name=talk"]
    return command


def _tail(path: Path, lines: int = 40) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
