"""Paths of the host: what a guest with a uid of its own can reach, and in which order they are shown."""

from dataclasses import replace

import pytest

from stockade import JobError, Policy
from stockade.backends.surroundings import Showing, check_reachable, host_paths, program_folders
from tests.unit import facts as hosts


def test_a_closed_folder_above_is_named(tmp_path):
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    check_reachable([str(inner), "a-word", "/no/such/thing"])
    (tmp_path / "closed").chmod(0o700)
    with pytest.raises(JobError, match="closed is closed to others"):
        check_reachable([str(inner)])


def test_outer_paths_come_first_and_the_last_word_counts():
    policy = Policy(filesystem={"read": ["/a/b/c", "/a"], "write": ["/a/b"], "workspace": "/a/b"})
    assert host_paths(policy, ["/workspace/python", "/opt/python"]) == [
        ("/a", Showing.READ),
        ("/a/b", Showing.WRITE),
        ("/workspace/python", Showing.PROGRAM),
        ("/a/b/c", Showing.READ),
    ]


def test_programs_that_lie_in_the_system_are_not_shown_twice():
    host = replace(hosts.USER, system=(("/usr", ""), ("/bin", "usr/bin")))
    folders = ["/usr/lib/python3", "/opt/python", "/opt/python/lib", "/tmp/env"]
    assert program_folders(host, folders) == ["/opt/python"]
