"""A change set is a sequence of changes, and data apart from its project."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from stockade import Change, ChangeSet, CommitError
from stockade.workspace.project import Project
from stockade.workspace.scan import scan_project

ADDED = Change("a", "added", "file", 0o644, b"new\n")
REMOVED = Change("b", "deleted", "file", before=b"old\n", old_mode=0o100644)


def test_change_set_is_a_sequence_of_changes() -> None:
    changes = ChangeSet((ADDED, REMOVED))
    assert (len(changes), changes[0], changes[-1], changes[1:]) == (2, ADDED, REMOVED, (REMOVED,))
    assert list(changes) == [ADDED, REMOVED] and REMOVED in changes
    assert changes and not ChangeSet()


def test_change_set_equality_and_repr_ignore_the_project() -> None:
    bound = ChangeSet((ADDED,), project=Project("/secret/place", "overlay"))
    assert bound == ChangeSet((ADDED,)) != ChangeSet()
    assert "/secret" not in repr(bound)
    assert pickle.loads(pickle.dumps(bound)).project == bound.project


def test_change_set_diff_shows_every_change() -> None:
    text = ChangeSet((ADDED, REMOVED)).diff()
    assert "+new\n" in text and "-old\n" in text
    assert ChangeSet().diff() == ""


def test_commit_without_project_is_refused() -> None:
    with pytest.raises(CommitError, match="no project to commit to"):
        ChangeSet((ADDED,)).commit()


def test_commit_writes_to_the_project(tmp_path: Path) -> None:
    project = scan_project(str(tmp_path), "copy", (), ())
    ChangeSet((ADDED,), project=project).commit()
    assert (tmp_path / "a").read_bytes() == b"new\n"


def test_commit_with_error_changes_nothing(tmp_path: Path) -> None:
    project = scan_project(str(tmp_path), "copy", (), ())
    with pytest.raises(CommitError, match="too slow"):
        ChangeSet((ADDED,), error="too slow", project=project).commit()
    assert list(tmp_path.iterdir()) == []
