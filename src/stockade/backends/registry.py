"""All backends by name. The module of a backend is imported only when the backend is used."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from stockade.backends.base import Backend, ImageRunner, Traits
from stockade.core.errors import BackendUnavailable, nearest
from stockade.core.loading import load, loading
from stockade.policy.guarantees import Isolation

BUILT_IN = {
    "native": "stockade.backends.native.backend:Native",
    "bubblewrap": "stockade.backends.bubblewrap.backend:Bubblewrap",
    "landlock": "stockade.backends.process.backend:Landlock",
    "process": "stockade.backends.process.backend:Process",
    "oci": "stockade.backends.oci.backend:Oci",
    "firejail": "stockade.backends.firejail.backend:Firejail",
    "docker": "stockade.backends.docker.backend:Docker",
    "podman": "stockade.backends.podman.backend:Podman",
    "gvisor": "stockade.backends.gvisor.backend:Gvisor",
    "microvm": "stockade.backends.microvm.backend:MicroVM",
}
"""Name to module and class. Among backends of equal isolation, the one that starts fastest comes first."""
_STANDING = {
    "native": (Isolation.NAMESPACES, False),
    "bubblewrap": (Isolation.NAMESPACES, False),
    "landlock": (Isolation.PROCESS, False),
    "process": (Isolation.PROCESS, False),
    "oci": (Isolation.NAMESPACES, False),
    "firejail": (Isolation.NAMESPACES, False),
    "docker": (Isolation.NAMESPACES, False),
    "podman": (Isolation.NAMESPACES, False),
    "gvisor": (Isolation.USER_KERNEL, True),
    "microvm": (Isolation.OWN_KERNEL, True),
}
"""What ``standing`` returns for a built-in backend, so that ``select`` imports those alone that it looks at."""
BY_NAME = {"metered": "stockade.embedded.backend:Metered"}
"""Backends that run less than all of a language. Only a caller who names one gets it: ``select`` never takes it."""
_GROUP = "stockade.backends"


def find(backend: str | Backend | None, image: str | None = None) -> Backend:
    """Return the backend of that name, or the object itself; with an ``image``, for guests in that image.

    ``None`` with an image is docker, or podman where only podman's socket is. Raises ``BackendUnavailable`` if no
    backend has that name, if it takes no images, or if the object lacks ``prepare`` or ``traits``.
    """
    found = _found(_with_images() if backend is None and image is not None else backend)
    if image is None:
        return found
    if not isinstance(found, ImageRunner):
        raise BackendUnavailable(f"backend {found.name!r} takes no image; use docker or podman, or leave the image out")
    return found.with_image(image)


def _with_images() -> str:
    from stockade.backends.docker import engine as docker
    from stockade.backends.podman import engine as podman

    only_podman = Path(podman.default_socket()).exists() and not Path(docker.default_socket()).exists()
    return "podman" if only_podman else "docker"


def _found(backend: str | Backend | None) -> Backend:
    if not isinstance(backend, str):
        return _checked(backend)
    target = BUILT_IN.get(backend) or BY_NAME.get(backend) or _others().get(backend)
    if target is None:
        known = sorted({*BUILT_IN, *BY_NAME, *_others()})
        near = nearest(backend, known)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"
        raise BackendUnavailable(f"there is no backend {backend!r}; {hint}")
    return _checked(load(target)())


def _checked(backend: Backend | None) -> Backend:
    if backend is None or not hasattr(backend, "prepare"):
        raise BackendUnavailable(f"a backend is a name or an object that prepares launches, not {backend!r:.80}")
    if not isinstance(getattr(backend, "traits", None), Traits):
        raise BackendUnavailable(
            f"backend {backend!r:.80} has no traits; set traits = stockade.backends.base.Traits(), "
            "which promises nothing"
        )
    return backend


def standing(name: str) -> tuple[Isolation, bool]:
    """Return the isolation of a backend, and whether it emulates: by these, ``select`` orders all backends."""
    if name in _STANDING:
        return _STANDING[name]
    backend = find(name)
    return backend.isolation, backend.traits.emulates


def others() -> list[str]:
    """Return the names of the backends that other packages add by entry points."""
    return sorted(_others())


@lru_cache(maxsize=1)
def _others() -> dict[str, str]:
    """Return the entry points of the group ``stockade.backends``. A built-in name cannot be replaced."""
    with loading:
        from importlib.metadata import entry_points

        own = {*BUILT_IN, *BY_NAME}
        return {point.name: point.value for point in entry_points(group=_GROUP) if point.name not in own}
