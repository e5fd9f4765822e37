"""The initial file system of a machine: files of the host, copied, as an uncompressed cpio archive (newc)."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

_FOLDERS = (
    "dev", "proc", "sys", "tmp", "run", "etc", "root", "var", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64",
    "usr/local",
)  # fmt: skip
_PROGRAMS = (
    "sh", "cat", "chmod", "cp", "date", "dd", "echo", "env", "false", "grep", "head", "id", "ln", "ls", "mkdir", "mv",
    "rm", "sed", "seq", "sleep", "sort", "tail", "test", "touch", "tr", "true", "uname", "wc",
)  # fmt: skip
_UNWANTED = (
    "test",
    "tests",
    "dist-packages",
    "site-packages",
    "idlelib",
    "ensurepip",
    "lib2to3",
    "tkinter",
    "turtledemo",
)
_MODULES = (
    "drivers/virtio/virtio_ring", "drivers/virtio/virtio", "drivers/virtio/virtio_mmio",
    "drivers/char/virtio_console", "drivers/char/hw_random/virtio-rng", "fs/overlayfs/overlay",
)  # fmt: skip
_CONSOLE, _NULL = (5, 1), (1, 3)  # devices, by major and minor number
_LIBRARY = re.compile(r"(/\S+) \(0x")
_SECONDS = 30.0


class Ramdisk:
    """Collects the files, by their path in the machine."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, bytes, tuple[int, int]]] = {}
        self._times: dict[str, int] = {}
        self._needing: list[str] = []
        for folder in _FOLDERS:
            self._folder(folder)
        for name in ("bin", "sbin", "lib", "lib64"):
            self._entries[name] = (stat.S_IFLNK | 0o777, f"usr/{name}".encode(), (0, 0))
        self._entries["dev/console"] = (stat.S_IFCHR | 0o600, b"", _CONSOLE)
        self._entries["dev/null"] = (stat.S_IFCHR | 0o666, b"", _NULL)

    def add(self, path: str, content: bytes, *, executable: bool = False, time: int = 0) -> None:
        """Add one file. Compiled Python code is valid only for source of its own ``time``."""
        self._folder(str(Path(path).parent))
        self._entries[path] = (stat.S_IFREG | (0o755 if executable else 0o644), content, (0, 0))
        self._times[path] = time

    def add_program(self, path: str, name: str = "") -> None:
        """Add the program or library at ``path`` of the host, and later the libraries that it needs."""
        real = os.path.realpath(path)
        self.add((name or path).lstrip("/"), Path(real).read_bytes(), executable=True)
        self._needing.append(real)

    def add_python(self, executable: str, library: str) -> None:
        """Add an interpreter with its standard library."""
        self.add_program(executable)
        self._entries["usr/bin/python3"] = (stat.S_IFLNK | 0o777, Path(executable).name.encode(), (0, 0))
        self.add_tree(Path(library), library)

    def add_programs(self) -> None:
        """Add a shell and a few programs."""
        for name in _PROGRAMS:
            path = f"/usr/bin/{name}"
            if Path(path).exists():
                self.add_program(path)

    def add_modules(self, folder: Path) -> None:
        """Add the modules of a kernel, and the order in which they are loaded: each before those that need it."""
        for name in _MODULES:
            self.add(f"modules/{Path(name).name}.ko", (folder / "kernel" / f"{name}.ko").read_bytes())
        self.add("modules/order", "\n".join(f"{Path(name).name}.ko" for name in _MODULES).encode())

    def add_tree(self, source: Path, target: str) -> None:
        """Add the Python code below ``source``, with libraries and compiled files, at ``target``."""
        for folder, folders, files in os.walk(source):
            folders[:] = [name for name in folders if name not in _UNWANTED and not name.startswith("config-")]
            for path in (Path(folder, name) for name in sorted(files)):
                name = f"{target}/{path.relative_to(source)}".lstrip("/")
                if path.suffix == ".so":
                    self.add_program(str(path), name)
                elif path.exists() and ".opt-" not in path.name:
                    self.add(name, path.read_bytes(), time=int(path.stat().st_mtime))

    def write(self, target: Path) -> None:
        """Write the archive."""
        self._add_libraries()
        with target.open("wb") as out:
            for number, (path, (mode, content, device)) in enumerate(
                [*self._entries.items(), ("TRAILER!!!", (0, b"", (0, 0)))], 1
            ):
                name = path.encode() + b"\0"
                fields = (number, mode, 0, 0, 1, self._times.get(path, 0), len(content), 0, 0, *device, len(name), 0)
                head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
                for part in (head, content):
                    out.write(part + bytes(-len(part) % 4))

    def _add_libraries(self) -> None:
        answer = subprocess.run(
            ["ldd", *self._needing],
            capture_output=True, text=True, check=False, timeout=_SECONDS, env={"PATH": os.defpath},
        )  # fmt: skip
        found = set(_LIBRARY.findall(answer.stdout))
        for path in sorted(found):
            below = path if path.startswith("/usr/") else f"/usr{path}"
            self.add(below.lstrip("/"), Path(os.path.realpath(path)).read_bytes(), executable=True)

    def _folder(self, path: str) -> None:
        if path != "." and path not in self._entries:
            self._folder(str(Path(path).parent))
            self._entries[path] = (stat.S_IFDIR | 0o755, b"", (0, 0))
