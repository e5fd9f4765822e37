"""The interfaces in which engines take requests: what only the engine client can add to one, and where it goes.

Starting, inspecting, killing and removing a container are docker's requests, which podman answers as well.
"""

from __future__ import annotations

import os

from stockade.core.launch import FILTER_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PODMAN = "/v4.0.0/libpod"
"""Where podman's own interface begins. A newer podman answers there as well."""


class Docker:
    """The interface of docker's engine."""

    prefix = ""

    def complete(self, body: dict[str, Any], name: str, labels: dict[str, str], folder: str) -> None:  # noqa: ARG002
        """Add the labels, and the run's ``folder`` to mounts whose source is relative. The name is in the path."""
        body["Labels"] = {**body.get("Labels", {}), **labels}
        for mount in body["HostConfig"]["Mounts"]:
            mount["Source"] = os.path.join(folder, mount["Source"])  # an absolute one stays


class Podman:
    """Podman's own interface."""

    prefix = PODMAN

    def complete(self, body: dict[str, Any], name: str, labels: dict[str, str], folder: str) -> None:
        """Add name and labels, and the run's ``folder`` to the filter and to mounts whose source is relative."""
        body["name"], body["labels"] = name, labels
        for mount in body["mounts"]:
            if mount["type"] == "bind":
                mount["source"] = os.path.join(folder, mount["source"])
        if body.get("seccomp_profile_path") == FILTER_FILE:
            body["seccomp_profile_path"] = f"{folder}/{FILTER_FILE}"


ALL: dict[str, Docker | Podman] = {"docker": Docker(), "podman": Podman()}
