"""The host's end of a machine: starts QEMU from a saved state, hands over the launch, and passes streams on.

This file is sent into the sandbox around QEMU as text, and the sandbox's Python runs it. stockade is absent there, so
the file may import only the standard library. It takes every byte from the machine for an attacker's.

A frame is one byte for its kind, a big-endian 32-bit length, and as many bytes.
"""

import json
import os
import select
import socket
import struct
import sys
import time

HELLO, LAUNCH, INPUT = b"HLI"
"""To the machine: time and random bytes; the launch; standard input, of which an empty frame is the end."""
READY, STDOUT, STDERR, CHANNEL, END, TROUBLE = b"R12CET"
"""From the machine: its facts, output, the result channel, the report, and why there is no report."""
HEAD = struct.Struct(">BI")
CLOCK = struct.Struct(">Q")
PIECE = 1 << 16
RANDOM_BYTES = 64
_MOST_FRAME = 2 << 20
_MOST_CHANNEL = (1 << 20) - (1 << 16)
"""Bytes of the guest's result channel. The report before it shares a channel of a mebibyte."""
_MONITOR_SECONDS = 30.0
_MOST_ANSWER = 1 << 16
_LOG = "/tmp/qemu.log"
_DENIED = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


class MachineError(Exception):
    """Raised if the machine fails, or says what no machine of ours says."""


def arguments(memory: int, link: int, monitor: int, console: str) -> list[str]:
    """Return QEMU's arguments for a machine of ``memory`` MiB: no disk, no network, no shared folder.

    The saved state fits only a machine with the same devices. ``link`` and ``monitor`` are descriptors of sockets.
    """
    return [
        "-M", "microvm,acpi=on,rtc=on,pit=off,pic=off",
        "-accel", "tcg,thread=single,tb-size=128",
        "-cpu", "max,la57=off", "-m", f"{memory}M",
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-chardev", console, "-serial", "chardev:console",
        "-device", "virtio-rng-device", "-device", "virtio-serial-device",
        "-chardev", f"socket,id=link,fd={link}", "-device", "virtserialport,chardev=link,name=stockade",
        "-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control",
        "-sandbox", _DENIED,
    ]  # fmt: skip


class Monitor:
    """QEMU's own protocol (QMP): one JSON object on each line."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(_MONITOR_SECONDS)
        self._sock = sock
        self._pending = b""
        self._line()
        self.ask("qmp_capabilities")

    def ask(self, command: str, fd: int = -1, **options: object) -> object:
        """Return the answer to ``command``; ``fd`` goes along. Raises ``MachineError`` if QEMU refuses."""
        line = json.dumps({"execute": command, "arguments": options}).encode() + b"\n"
        if fd < 0:
            self._sock.sendall(line)
        else:
            socket.send_fds(self._sock, [line], [fd])
        while True:
            answer = self._line()
            if "error" in answer:
                raise MachineError(f"QEMU refused {command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def status(self) -> str:
        """Return the state of the machine, in QEMU's word."""
        answer = self.ask("query-status")
        return str(answer.get("status")) if isinstance(answer, dict) else ""

    def _line(self) -> dict[str, object]:
        while b"\n" not in self._pending:
            try:
                data = self._sock.recv(PIECE)
            except OSError as error:
                raise MachineError(f"QEMU does not answer: {error}") from None
            if not data or len(self._pending) > _MOST_ANSWER:
                raise MachineError("QEMU ended" if not data else "QEMU's answer has no end")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        answer = json.loads(line)
        if not isinstance(answer, dict):
            raise MachineError("QEMU's answer is not an object")
        return answer


class Frames:
    """Takes frames out of the bytes that a machine sent."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that ``data`` completes. Raises ``MachineError`` for a frame that is too long."""
        self._buffer += data
        found = []
        while len(self._buffer) >= HEAD.size:
            kind, length = HEAD.unpack_from(self._buffer)
            if length > _MOST_FRAME:
                raise MachineError(f"a frame of {length} bytes is too long")
            if len(self._buffer) < HEAD.size + length:
                break
            found.append((kind, bytes(self._buffer[HEAD.size : HEAD.size + length])))
            del self._buffer[: HEAD.size + length]
        return found


def frame(kind: int, content: bytes = b"") -> bytes:
    """Return one frame."""
    return HEAD.pack(kind, len(content)) + content


def hello() -> bytes:
    """Return the frame that sets a machine's clock and seeds its random numbers, which all copies have in common."""
    return frame(HELLO, CLOCK.pack(time.time_ns()) + os.urandom(RANDOM_BYTES))


def resume(monitor: Monitor, state: int) -> None:
    """Load the saved state from the descriptor ``state``, and let the machine run."""
    monitor.ask("getfd", fd=state, fdname="state")
    monitor.ask("migrate-incoming", uri="fd:state")
    until = time.monotonic() + _MONITOR_SECONDS
    while (status := monitor.status()) != "paused":
        if status not in ("inmigrate", "prelaunch") or time.monotonic() > until:
            raise MachineError(f"the saved state was not loaded: the machine is {status!r}")
        time.sleep(0.005)
    monitor.ask("cont")


def relay(link: socket.socket, launch: bytes) -> tuple[bytes, bytes]:
    """Hand over the launch and pass streams on. Return the machine's report, and the content of its result channel."""
    outgoing, frames, channel = bytearray(hello() + frame(LAUNCH, launch)), Frames(), bytearray()
    link.setblocking(False)
    reads = True
    while True:  # the warden outside bounds how long
        poll = select.poll()
        poll.register(link, select.POLLIN | (select.POLLOUT if outgoing else 0))
        if reads and not outgoing:
            poll.register(0, select.POLLIN)
        found = dict(poll.poll())
        if 0 in found:
            data = os.read(0, PIECE)
            reads = bool(data)
            outgoing += frame(INPUT, data)
        happened = found.get(link.fileno(), 0)
        if happened & select.POLLOUT:
            del outgoing[: link.send(outgoing)]
        if happened & (select.POLLIN | select.POLLHUP | select.POLLERR):
            data = link.recv(PIECE)
            if not data:
                raise MachineError("QEMU ended in the middle of the run")
            for kind, content in frames.feed(data):
                if kind == END:
                    return content, bytes(channel)
                _take(kind, content, channel)


def _take(kind: int, content: bytes, channel: bytearray) -> None:
    if kind in (STDOUT, STDERR):
        _write(1 if kind == STDOUT else 2, content)
    elif kind == CHANNEL:
        if len(channel) + len(content) > _MOST_FRAME:
            raise MachineError("the result channel has no end")
        channel += content
    elif kind == TROUBLE:
        raise MachineError(content[:1000].decode("utf-8", "replace"))
    else:
        raise MachineError(f"a frame of unknown kind {kind}")


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _start(qemu: str, memory: int, state: str) -> tuple[socket.socket, socket.socket]:
    """Start QEMU and load the state. Return the ends of both sockets: with either closed, the machine would notice."""
    link, link_end = socket.socketpair()
    monitor, monitor_end = socket.socketpair()
    for end in (link_end, monitor_end):
        os.set_inheritable(end.fileno(), True)
    words = [qemu, *arguments(memory, link_end.fileno(), monitor_end.fileno(), "null,id=console"), "-incoming", "defer"]
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        (os.POSIX_SPAWN_CLOSE, 3),  # the result channel is not QEMU's
    ]
    os.posix_spawn(qemu, words, {"PATH": "/usr/bin"}, file_actions=streams)
    for end in (link_end, monitor_end):
        end.close()
    resume(Monitor(monitor), os.open(state, os.O_RDONLY))
    return monitor, link


def main(qemu: str, memory: str, state: str, launch: str) -> None:
    """Run the launch in the file ``launch`` in a fresh copy of the machine. Report on descriptor 3."""
    try:
        with open(launch, "rb") as file:
            content = file.read()
        _monitor, link = _start(qemu, int(memory), state)
        report, channel = relay(link, content)
        inner = json.loads(report)
        inner["channel_overflow"] |= len(channel) > _MOST_CHANNEL
        answer = json.dumps(inner, allow_nan=False).encode() + b"\n" + channel[:_MOST_CHANNEL]
    except (OSError, ValueError, TypeError, KeyError, RecursionError, MachineError) as error:
        answer = json.dumps({"trouble": f"{error}{_log_of_qemu()}"}).encode() + b"\n"
    _write(3, answer)


def _log_of_qemu() -> str:
    try:
        with open(_LOG, "rb") as file:
            words = file.read(PIECE).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return f" ({words[-300:]})" if words else ""


if __name__ == "__main__":
    main(*sys.argv[1:])
