"""A kernel provisioner: Jupyter's kernel runs in a living sandbox, and its sockets lead there."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Dict, Float, Int, Unicode, Union

from stockade.api.asynchronous.threads import in_thread
from stockade.api.options import overlaid
from stockade.api.ports import PortStream, Relay
from stockade.api.process import Process
from stockade.api.sandbox import Sandbox
from stockade.core.errors import SandboxClosed, SetupError, StockadeError
from stockade.integrations.living import DEFAULT_POLICY as _OF_AGENTS
from stockade.integrations.zmtp import LONGEST_MESSAGE, CheckedStream, FrameCheck
from stockade.policy.guarantees import Guarantee

DEFAULT_POLICY: Mapping[str, Any] = {
    "limits": {**_OF_AGENTS["limits"], "cpu_time": "24h", "output": "1GiB"},
}
"""What a kernel gets if its specification says nothing else: no network, and nothing of the host but its programs."""
_DAY = 24 * 3600.0
_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
_FIRST_PORT = 50_000  # of the sandbox's own network; those of Unix sockets are a part of their paths, from 1
_FILE, _ERRORS = "/tmp/.kernel.json", "/tmp/.kernel-errors"
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_AGAIN_SECONDS = 1.0
_LONGEST_ERROR = 4000
_LONGEST_SOCKET_PATH = 100


class StockadeProvisioner(KernelProvisionerBase):  # type: ignore[misc]
    """Starts a kernel in a sandbox of its own. Jupyter makes it for kernel specifications that name ``stockade``.

    The configuration in the specification has the arguments of ``Sandbox.create`` below. The kernel's sockets are TCP
    ports of the sandbox's own network. On the host, they are Unix sockets in a folder that only you can enter.
    """

    policy = Union([Dict(), Unicode()], default_value=None, allow_none=True, help="A policy's fields, or a profile.")
    packages = Unicode(None, allow_none=True, help="The virtual environment of the host that has ipykernel.")
    workspace = Unicode(None, allow_none=True, help="A folder of the host to work in.")
    access = Unicode(None, allow_none=True, help="How the kernel may use the workspace, such as overlay.")
    environment = Dict(help="Variables of the kernel.")
    max_lifetime = Float(_DAY, help="Seconds after which the sandbox ends, whatever happens.")
    start_timeout = Float(_START_SECONDS, help="Seconds that the kernel may take to listen.")
    longest_message = Int(LONGEST_MESSAGE, help="Bytes of one message of the kernel.")

    def __init__(self, **config: Any) -> None:
        unknown = sorted(set(config) - set(self.trait_names()))
        if unknown:
            raise ValueError(f"kernel provisioner stockade: there is no {', '.join(unknown)}; see its guide")
        super().__init__(**config)
        self._sandbox: Sandbox | None = None
        self._process: Process | None = None
        self._relays: list[Relay] = []
        self._folder = ""
        self._key = b""
        self._left = 0.0
        self._lock = threading.Lock()

    # -- the start -----------------------------------------------------------------------------------------------

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Return what ``launch_kernel`` needs. The command names the connection file inside."""
        if "required" in (kwargs.get("transport_encryption"), getattr(self.parent, "transport_encryption", None)):
            raise ValueError("transport_encryption = 'required': Jupyter encrypts TCP, and these are Unix sockets")
        argv = [*self.kernel_spec.argv, *kwargs.pop("extra_arguments", [])]
        known: dict[str, Any] = await super().pre_launch(cmd=argv, **kwargs)
        return known

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the sandbox and the kernel in it, and return how to reach the kernel when it listens."""
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="stockade-kernel-")  # with mode 0700
            self._key = getattr(getattr(self.parent, "session", None), "key", b"") or token_hex(32).encode()
        self.connection_info = self._connection_info("ipc", str(Path(self._folder, "k")), 1)
        own = {name: kwargs["env"][name] for name in self.kernel_spec.env}
        try:
            await in_thread(partial(self._start, cmd, {**own, **self.environment}))
            await self._until_it_listens()
            for number in range(len(_CHANNELS)):
                self._listen(1 + number, _FIRST_PORT + number)
        except BaseException:
            await self.cleanup()
            self._process = None
            raise
        return self.connection_info

    def _connection_info(self, transport: str, ip: str, first: int) -> Any:
        ports = {f"{channel}_port": first + number for number, channel in enumerate(_CHANNELS)}
        signed = {"key": self._key, "signature_scheme": "hmac-sha256", "kernel_name": ""}
        return {"transport": transport, "ip": ip, **ports, **signed}

    def _start(self, cmd: list[str], environment: dict[str, str]) -> None:
        chosen = {name: getattr(self, name) for name in ("packages", "workspace", "access")}
        policy = overlaid(DEFAULT_POLICY if self.policy is None else self.policy, {})
        if policy.network == "host":
            raise ValueError("network = 'host': the ports of the kernel would be those of the host; use 'none'")
        sandbox = self._sandbox = Sandbox.create(policy, idle_timeout=None, max_lifetime=self.max_lifetime, **chosen)
        self._left = sandbox.policy.limits.figure(Guarantee.OUTPUT) or float("inf")
        inside = self._connection_info("tcp", "127.0.0.1", _FIRST_PORT) | {"key": self._key.decode()}
        sandbox.files.write(_FILE, json.dumps(inside))
        sandbox.files.close()  # its agent is one more process
        argv = [part.replace("{connection_file}", _FILE) for part in cmd]
        self._process = sandbox.start_command(
            argv, environment=environment, stdin="none", stdout="/dev/null", stderr=_ERRORS
        )

    async def _until_it_listens(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.start_timeout
        while True:
            try:
                (await in_thread(partial(self._connect, _FIRST_PORT))).close()
            except ConnectionRefusedError:
                if await self.poll() is not None:
                    raise SetupError(f"the kernel has ended: {await in_thread(self._errors)}") from None
                if loop.time() > deadline:
                    raise TimeoutError(f"the kernel does not listen after {self.start_timeout:g} s") from None
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return

    def _errors(self) -> str:
        """Return the end of what the kernel wrote to standard error: the guest's words."""
        assert self._sandbox is not None
        try:
            text = self._sandbox.files.read_bytes(_ERRORS).decode("utf-8", "replace")
        except (OSError, StockadeError) as error:
            text = str(error)
        return text[-_LONGEST_ERROR:].strip() or "it wrote no error; does its environment have ipykernel? see packages"

    def _listen(self, host_port: int, port: int) -> None:
        path = f"{self.connection_info['ip']}-{host_port}"
        if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
            raise OSError(errno.ENAMETOOLONG, "a socket cannot have so long a path: set TMPDIR to a shorter one", path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            Path(path).unlink(missing_ok=True)
            listener.bind(path)
            listener.listen()
        except BaseException:
            listener.close()
            raise
        self._relays.append(Relay(self._checked, port, listener))

    # -- what comes from the kernel --------------------------------------------------------------------------------

    def _connect(self, port: int) -> PortStream:
        sandbox = self._sandbox
        if sandbox is None:
            raise SandboxClosed("the kernel has ended")
        return sandbox.connect(port)

    def _checked(self, port: int) -> PortStream:
        """Return a connection to the kernel whose bytes are checked and counted."""
        frames = FrameCheck(self.longest_message)

        def check(data: bytes) -> None:
            try:
                frames.check(data)
                self._count(len(data))
            except ValueError as error:
                self._refuse(str(error))
                raise OSError(errno.EPROTO, str(error)) from error

        try:
            stream = self._connect(port)
        except OSError:
            time.sleep(_AGAIN_SECONDS)  # in a thread of this connection; ZeroMQ comes again as soon as it ends
            raise
        return CheckedStream.over(stream, check)

    def _count(self, size: int) -> None:
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise ValueError("more output than limits.output allows")

    def _refuse(self, why: str) -> None:
        """End a kernel that breaks the rules. Jupyter sees that it has died."""
        self.log.error("the kernel was ended: it sent %s", why)
        if self._process is not None:
            self._process._cancel()

    # -- the process, in the words of Jupyter ----------------------------------------------------------------------

    @property
    def has_process(self) -> bool:
        """Whether a kernel was started and not waited for."""
        return self._process is not None

    async def poll(self) -> int | None:
        """Return the exit status of the kernel, or ``None`` while it runs."""
        return 0 if self._process is None else self._process.poll()

    async def wait(self) -> int | None:
        """Wait for the end of the kernel, and return its exit status."""
        while (status := await self.poll()) is None:
            await asyncio.sleep(_LOOK_SECONDS)
        self._process = None
        return status

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel. SIGINT interrupts the cell, with what it has started."""
        if self._process is not None and signum:
            self._process.send_signal(signum)

    async def kill(self, restart: bool = False) -> None:
        """End the kernel with everything that it started."""
        if self._process is not None:
            await in_thread(self._process.kill)

    async def terminate(self, restart: bool = False) -> None:
        """Ask the kernel to end."""
        if self._process is not None:
            self._process.terminate()

    async def cleanup(self, restart: bool = False) -> None:
        """End the sandbox. A restarted kernel gets a fresh one, behind the same sockets."""
        await in_thread(self._end)
        if not restart and self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def _end(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        for each in self._relays:
            each.close()
        self._relays.clear()
        if sandbox is not None:
            sandbox.close()
