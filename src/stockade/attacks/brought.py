"""Observations of the files that an attack leaves: a careless collector takes them, or a run returns artifacts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stockade.workspace.artifacts import ArtifactLimits

_ANSWER = "answer"
"""The prefix of the names of files that attacks leave to be collected."""


def questions(sizes: Mapping[str, int]) -> dict[str, Callable[[], bool]]:
    """Return the observations of collected files: whether there were any, and whether they exceed the limits.

    ``sizes`` maps the path of each file to its size in bytes.
    """
    found = [size for path, size in sizes.items() if path.rpartition("/")[2].startswith(_ANSWER)]
    limits = ArtifactLimits()
    too_much = len(found) > limits.files or max(found, default=0) > limits.file_bytes or sum(found) > limits.total_bytes
    return {"brought_out": lambda: bool(found), "too_much": lambda: too_much}
