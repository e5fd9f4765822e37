"""Host paths: those that a guest with its own uid can reach, and the order in which they are shown."""

import os
from dataclasses import replace

import pytest

from stockade import JobError, Policy
from stockade.backends.shared.guest_environment import (
    Showing,
    check_reachable,
    environment,
    host_paths,
    program_folders,
)
from stockade.runs.job import Command, Job
from tests.unit import facts as hosts


def test_closed_parent_folder_is_named(tmp_path):
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    check_reachable([str(inner), "a-word", "/no/such/thing"])
    (tmp_path / "closed").chmod(0o700)
    with pytest.raises(JobError, match="closed is closed to others"):
        check_reachable([str(inner)])


def test_host_paths_show_outer_paths_first():
    policy = Policy(filesystem={"read": ["/a/b/c", "/a"], "write": ["/a/b"], "workspace": "/a/b"})
    assert host_paths(policy, ["/workspace/python", "/opt/python"]) == [
        ("/a", Showing.READ),
        ("/a/b", Showing.WRITE),
        ("/workspace/python", Showing.PROGRAM),
        ("/a/b/c", Showing.READ),
    ]


def test_program_folders_in_system_are_left_out():
    host = replace(hosts.USER, system=(("/usr", ""), ("/bin", "usr/bin")))
    folders = ["/usr/lib/python3", "/opt/python", "/opt/python/lib", "/tmp/env"]
    assert program_folders(host, folders) == ["/opt/python"]


@pytest.mark.parametrize(
    ("processes", "processors", "threads"),
    [(10, 64, "2"), (1, 64, "1"), (400, 64, "64"), (400, 2, "2"), ("unlimited", 64, None)],
)
def test_library_threads_fit_the_process_limit(monkeypatch, processes, processors, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(processors))
    policy = Policy(limits={"processes": processes})
    job, command = Job(argv=("true",)), Command(argv=("true",))
    for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        assert environment(policy, job, command).get(name) == threads


def test_library_threads_set_by_policy_are_kept():
    policy = Policy(environment={"set": {"OMP_NUM_THREADS": "7", "MKL_NUM_THREADS": "7"}})
    made = environment(policy, Job(argv=("true",), environment={"MKL_NUM_THREADS": "8"}), Command(argv=("true",)))
    assert (made["OMP_NUM_THREADS"], made["MKL_NUM_THREADS"]) == ("7", "8")
