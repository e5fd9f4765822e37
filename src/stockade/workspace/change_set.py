"""The changes of one run: data that can be shown as a diff and committed to the project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, overload

from stockade.core.dataclass import dataclass
from stockade.core.errors import CommitError
from stockade.core.loading import loading
from stockade.workspace.artifacts import Refused

if TYPE_CHECKING:
    from stockade.workspace.changes import Change
    from stockade.workspace.commit import Committed
    from stockade.workspace.project import Project

_NO_PROJECT = (
    "the change set has no project to commit to: the policy's access='overlay' or 'copy' gives a run one, and a result "
    "that was read back from data has none"
)


@dataclass(frozen=True)
class ChangeSet(Sequence["Change"]):
    """The changes of a run to its project, under ``access="overlay"`` or ``"copy"``: a sequence of ``Change``, by path.

    The project on the host stays as it is until ``commit``. Equality and ``repr`` leave the project out.
    """

    items: tuple[Change, ...] = ()
    refused: tuple[Refused, ...] = ()
    """What the run left that could not be brought out. Nothing is committed while this is not empty."""
    error: str | None = None
    """Why changes may be missing altogether."""
    project: Project | None = field(default=None, repr=False, compare=False)
    """The project that ``commit`` writes to; ``None`` if the run had none."""

    @overload
    def __getitem__(self, at: int) -> Change: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Change, ...]: ...
    def __getitem__(self, at: int | slice) -> Change | tuple[Change, ...]:
        """Return one change, or a tuple of some."""
        return self.items[at]

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self.items)

    def __iter__(self) -> Iterator[Change]:
        """Return an iterator over the changes."""
        return iter(self.items)

    def diff(self) -> str:
        """Return the changes as a unified diff, which only names files that are not text. It may hold any character."""
        if not self.items:
            return ""
        with loading:
            from stockade.workspace.diff import diff

        return diff(self.items)

    def commit(self) -> Committed:
        """Apply the changes to the project on the host: all of them or none, as far as its file system allows.

        A commit leaves out hidden and protected paths. Raises ``CommitError`` with every reason, before it changes
        anything. The host may have changed a file since the run began, or a link may lead out of the project. The
        sandbox may not have handed over some file, or there may be no project.
        """
        if self.project is None:
            raise CommitError([Refused("", _NO_PROJECT)])
        with loading:
            from stockade.workspace.commit import commit

        return commit(self.project, self.items, self.refused, self.error)
