"""The project behind a run's changes: shown as a diff, committed on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stockade.core.loading import loading

if TYPE_CHECKING:
    from stockade.workspace.artifacts import Refused
    from stockade.workspace.changes import Change
    from stockade.workspace.commit import Committed
    from stockade.workspace.project import Project


@dataclass(frozen=True)
class Workspace:
    """The project behind a result: where changes are committed to."""

    project: Project

    def commit(self, changes: Sequence[Change], refused: Sequence[Refused], error: str | None) -> Committed:
        """See ``Result.commit``."""
        with loading:
            from stockade.workspace.commit import commit

        return commit(self.project, changes, refused, error)

    def diff(self, changes: Sequence[Change]) -> str:
        """See ``Result.diff``."""
        with loading:
            from stockade.workspace.diff import diff

        return diff(changes)
