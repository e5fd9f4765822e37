"""A job that cannot run is refused before anything starts, with the value and the remedy."""

import pytest

from stockade import BackendUnavailable, JobError
from stockade.api.job_arguments import job_from_command, job_from_source
from stockade.backends import registry as backends
from stockade.languages import registry as languages


@pytest.mark.parametrize(("files", "message"), [
    ({"a": b"", "a/b": b""}, "'a/b': another file has the name of the folder"),
    ({"a/b": b"", "a/b/c/d": b""}, "'a/b/c/d': another file"),
    ({"x" * 256: b""}, "longer than Linux takes"),
    ({"é" * 200: b""}, "longer than Linux takes"),
    ({"/".join(["a" * 200] * 20): b""}, "longer than Linux takes"),
])  # fmt: skip
def test_job_refuses_impossible_file_names(files, message):
    with pytest.raises(JobError, match=message):
        job_from_source("1", files=files)


def test_job_takes_long_file_names():
    assert job_from_source("1", files={"a": b"", "ab/c": b"", "x" * 255: b""}).files.keys() == {"a", "ab/c", "x" * 255}


@pytest.mark.parametrize("argv", [[1, 2], 5, [None], ["a", 1]])
def test_command_of_other_types_is_refused(argv):
    with pytest.raises(JobError, match="a command is a list of words"):
        job_from_command(argv)


def test_find_refuses_values_that_are_not_names():
    with pytest.raises(JobError, match="a language is a name"):
        languages.find(5)
    with pytest.raises(BackendUnavailable, match="a backend is a name"):
        backends.find(5)
    with pytest.raises(
        BackendUnavailable,
        match="there are: bubblewrap, docker, firejail, gvisor, landlock, metered, microvm, native, oci, podman, process",
    ):
        backends.find("chroot")


def test_backend_without_traits_is_refused():
    class Traitless:
        name = "mine"
        prepare = None

    with pytest.raises(BackendUnavailable, match=r"has no traits; set traits = stockade\.backends\.base\.Traits\(\)"):
        backends.find(Traitless())


@pytest.mark.parametrize(("options", "message"), [
    ({"arguments": ["\ud800"]}, "cannot be encoded"),
    ({"environment": {"A": "\ud800"}}, "cannot be encoded"),
    ({"files": {"\ud800": b""}}, "cannot be encoded"),
    ({"arguments": ["x" * (1 << 17)]}, "131,072 bytes or more, and Linux takes fewer"),
    ({"environment": {"A": "x" * ((1 << 17) - 2)}}, "131,072 bytes or more"),
    ({"arguments": ["\0"]}, "without NUL"),
])  # fmt: skip
def test_job_refuses_arguments_that_exec_cannot_take(options, message):
    with pytest.raises(JobError, match=message):
        job_from_source("1", **options)


def test_job_takes_the_longest_argument():
    longest = "x" * ((1 << 17) - 1)
    assert job_from_source("1", arguments=[longest, "\udcff"]).arguments == (longest, "\udcff")
    assert job_from_source("1", environment={"A": longest[2:]}).environment == {"A": longest[2:]}
