"""From requirements to an environment in the store: found there, or downloaded, unpacked and put there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stockade.api.packages import wanted
from stockade.core.errors import JobError
from stockade.languages import registry as languages
from stockade.runs.job import Job

if TYPE_CHECKING:
    from stockade.api.packages.store import Store
    from stockade.api.packages.unpack import Wheel
    from stockade.policy.model import Policy

_INDEX = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CONFIG_FILE", "PIP_CONSTRAINT")
"""Variables of pip that change what a requirement is resolved to."""
_known: dict[str, str] = {}
"""The folder of each environment that this process has provided, by the path of the store and the request."""


@dataclass(frozen=True)
class Step:
    """A step on the way to an environment: what is being done, and how many of how many packages are done."""

    action: str
    what: str = ""
    done: int = 0
    total: int = 0


OnStep = Callable[[Step], object]


def provided(job: Job, policy: Policy | None = None) -> Job:
    """Return the job with the environment of its requirements: an interpreter, or the packages of a command."""
    if not job.requirements:
        return job
    folder = provide(job.requirements, job.interpreter, policy=policy)
    return with_environment(replace(job, requirements=()), folder)


def with_environment(job: Job, folder: str) -> Job:
    """Return the job in the environment ``folder``."""
    return replace(job, packages=folder) if job.argv else replace(job, interpreter=folder)


def provide(
    requirements: Sequence[str],
    interpreter: str | None = None,
    *,
    policy: Policy | None = None,
    on_step: OnStep = lambda _step: None,
) -> str:
    """Return the folder of an environment with these packages, for the executable ``interpreter``.

    ``policy`` is that of the caller: what it accepts applies to the sandboxes that unpack as well. Raises
    ``RequirementError`` before anything of a package runs.
    """
    from stockade.api.packages.store import Store, default_place

    if interpreter is not None and Path(interpreter).expanduser().is_dir():
        raise JobError(f"requirements: they make an environment of their own; name an executable, not {interpreter}")
    found = languages.find("python").interpreter(interpreter)
    python = _Python(os.path.realpath(found.executable), found.version)
    names = wanted.checked(requirements)
    index = [os.environ.get(name, "") for name in _INDEX]
    request = _key([python.executable, python.text, names, index])
    known = f"{default_place()}/{request}"
    if known not in _known:
        store = Store()
        _known[known] = _find(store, request) or _Making(store, python, policy, on_step).make(request, names)
    return _known[known]


@dataclass(frozen=True)
class _Python:
    executable: str
    version: tuple[int, ...]

    @property
    def text(self) -> str:
        return ".".join(map(str, self.version))

    @property
    def site(self) -> str:
        """The folder of modules in an environment."""
        return f"lib/python{self.version[0]}.{self.version[1]}/site-packages"


def _find(store: Store, request: str) -> str:
    digest = store.resolved(request)
    return (store.use(digest) if digest else None) or ""


@dataclass(frozen=True)
class _Making:
    """Makes an environment."""

    store: Store
    python: _Python
    policy: Policy | None
    on_step: OnStep

    def make(self, request: str, names: tuple[str, ...]) -> str:
        """Download the packages and store an environment with them; return its folder."""
        from stockade.api.packages import pip

        with self.store.request(request) as noted:
            found = _find(self.store, request)  # another process may have been faster
            if found:
                return found
            with self.store.building() as (place, lock):
                self.on_step(Step("resolving", ", ".join(map(wanted.name, names))))
                wheels = pip.download(names, self.python.executable, place, lock, self._fetching)
                parts = [self.python.executable, self.python.text]
                digest = _key([*parts, [(each.path.name, each.digest) for each in wheels]])
                folder = self.store.use(digest)
                if folder is None:
                    self._unpack(wheels, place, digest)
                    folder = self.store.use(digest)
            assert folder is not None
            self.store.note(noted, names, digest)
        return folder

    def _fetching(self, what: str) -> None:
        self.on_step(Step("fetching", what))

    def _unpack(self, wheels: Sequence[Wheel], place: Path, digest: str) -> None:
        from stockade.api.packages.frames import Written
        from stockade.api.packages.unpack import Target, Unpacking

        done: list[Wheel] = []

        def count(wheel: Wheel) -> None:
            done.append(wheel)
            self.on_step(Step("unpacking", wheel.name, len(done), len(wheels)))

        self.on_step(Step("unpacking", "", 0, len(wheels)))
        settings = self._prepare(place / "env")
        target = Target(place, self.store.folder(digest), self.python.site, self.python.executable)
        unpacking = Unpacking(target, self.policy, count)
        unpacking.unpack(wheels)
        files = {"pyvenv.cfg": Written(len(settings), hashlib.sha256(settings).hexdigest()), **unpacking.files}
        about = {
            "python": self.python.text,
            "interpreter": self.python.executable,
            "wheels": [{"file": each.path.name, "sha256": each.digest} for each in wheels],
            "left_out": sorted(unpacking.left_out),
        }
        self.store.publish(digest, place / "env", files, about)

    def _prepare(self, made: Path) -> bytes:
        """Make an empty environment; return its settings."""
        from stockade.api.packages.store import LINKS

        (made / "bin").mkdir(parents=True)
        for name in LINKS:
            (made / name).symlink_to(self.python.executable)
        (made / self.python.site).mkdir(parents=True)
        home = Path(self.python.executable).parent
        text = f"home = {home}\ninclude-system-site-packages = false\nversion = {self.python.text}\n"
        (made / "pyvenv.cfg").write_text(text)
        (made / "pyvenv.cfg").chmod(0o444)
        return text.encode()


def _key(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
