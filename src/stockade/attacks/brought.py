"""What was brought out of what a program has left: by a careless collector after a control, as artifacts of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stockade.workspace.artifacts import ArtifactLimits

_ANSWER = "answer"
"""How the names of those files begin that attacks leave to be brought out."""


def questions(sizes: Mapping[str, int]) -> dict[str, Callable[[], bool]]:
    """Return what can be asked of the files that came out, by path with their bytes: were there any, or too much?"""
    found = [size for path, size in sizes.items() if path.rpartition("/")[2].startswith(_ANSWER)]
    caps = ArtifactLimits()
    too_much = len(found) > caps.files or max(found, default=0) > caps.file_bytes or sum(found) > caps.total_bytes
    return {"brought_out": lambda: bool(found), "too_much": lambda: too_much}
