"""Podman services of the tests' own: root's, and that of an ordinary user."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stockade.linux.engine_api import ask
from tests.support import host
from tests.support.docker_engine import IMAGE, Daemon

_UID = 65534
_AS_USER = f"""
mount --bind "$0/ids" /etc/subuid && mount --bind "$0/ids" /etc/subgid || exit
exec setpriv --reuid={_UID} --regid={_UID} --clear-groups env -i PATH="$PATH" HOME="$0" XDG_RUNTIME_DIR="$0" "$@"
"""
_SETTINGS = """
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
runtime = "runc"
tmp_dir = "{place}/tmp"
[network]
network_config_dir = "{place}/net"
"""
_STORAGE = """
[storage]
driver = "overlay"
graphroot = "{place}/data"
runroot = "{place}/run"
"""


class Service(Daemon):
    """Root's service."""

    def __init__(self, folder: Path) -> None:
        """Keep everything below ``folder``, except for the control groups, which podman names itself."""
        super().__init__(folder)
        self.parent = "/libpod_parent"

    def command(self) -> list[str]:
        """Return the command of the service."""
        place = self.folder
        (place / "containers.conf").write_text(_SETTINGS.format(place=place))
        (place / "storage.conf").write_text(_STORAGE.format(place=place))
        return [
            *(
                "env",
                f"--chdir={place}",
                f"CONTAINERS_CONF={place}/containers.conf",
                f"CONTAINERS_STORAGE_CONF={place}/storage.conf",
            ),
            *("podman", "system", "service", "--time=0", f"unix://{self.socket}"),
        ]

    def load(self, content: bytes) -> None:
        """Make ``IMAGE`` of a tar archive. Podman 4.3 gives every import the tag ``latest``."""
        super().load(content)
        ask(self.socket, "POST", "/images/stockade-test:latest/tag?repo=stockade-test&tag=1")


class RootlessService(Service):
    """The service of an ordinary user, who owns a range of ids in the service's view of the host."""

    def command(self) -> list[str]:
        """Return the command of the service."""
        command = super().command()
        (self.folder / "ids").write_text(f"{_UID}:100000:65536\n")
        for path in (self.folder, *self.folder.iterdir()):
            os.chown(path, _UID, _UID)
        return ["sh", "-c", _AS_USER, str(self.folder), *command]

    def clean_up(self) -> None:
        """End what outlives the service: its second process, now and then, and the keeper of the user's namespaces."""
        left = [int(path.read_text()) for path in self.folder.rglob("pause.pid")]
        left += [int(each.name) for each in Path("/proc").glob("[0-9]*") if self.socket in host.read(f"{each}/cmdline")]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().clean_up()


@contextlib.contextmanager
def bare_container(service: Daemon, command: Sequence[str], limits: Mapping[str, Any]) -> Iterator[Any]:
    """Start a container as anyone can ask for it, without the backend; yield what returns its state."""
    ulimits = [{"Name": name, "Soft": most, "Hard": most} for name, most in (("nofile", 256), ("nproc", 4096))]
    settings = {"NetworkMode": "none", "LogConfig": {"Type": "none"}, "Ulimits": ulimits, **limits}
    body = {"Image": IMAGE, "Entrypoint": command, "HostConfig": settings}
    name = ask(service.socket, "POST", "/containers/create?name=bare", body)["Id"]
    try:
        ask(service.socket, "POST", f"/containers/{name}/start")
        yield lambda: ask(service.socket, "GET", f"/containers/{name}/json")["State"]
    finally:
        ask(service.socket, "DELETE", f"/containers/{name}?force=1&v=1")
        host.eventually(lambda: not service.containers(), 20)
