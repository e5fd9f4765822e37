"""Guests that hold the template of their launch ahead and get only the source, and guests whose launch
differs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.support import host

import stockade
from stockade import Policy

pytestmark = [pytest.mark.needs("namespaces"), pytest.mark.alone]

_SEEN = """
import os, resource, sys
print(sys.argv[1:], sys.orig_argv[3:], os.environ.get("KIND"), resource.getrlimit(resource.RLIMIT_NOFILE)[0], {n})
"""
_FILES, _KIND = "files", "kind"


@pytest.fixture(autouse=True)
def own_warden() -> Iterator[None]:
    """Give each test a warden of its own, and check that nothing is left of it."""
    with host.as_before():
        yield


def sandbox(*, files: int = 64, kind: str = "a", warm: bool = True) -> stockade.Runner:
    policy = Policy.parse({"environment": {"set": {"KIND": kind}}, "limits": {"open_files": files}})
    return stockade.Runner(policy, backend="native", warm=warm)


def seen(box: stockade.Runner, number: int, arguments: tuple[str, ...] = ()) -> str:
    how: dict[str, Any] = {"arguments": arguments} if arguments else {}
    return box.run(_SEEN.replace("{n}", str(number)), **how).check().stdout


def expected(number: int, *, files: int = 64, kind: str = "a", arguments: tuple[str, ...] = ()) -> str:
    given = [*arguments]
    return f"{given} {['0', '/job/main.py', *given]} {kind} {files} {number}\n"


def test_templated_launch_equals_fresh_interpreter() -> None:
    cold, box = sandbox(warm=False), sandbox()
    for number in range(12):
        assert seen(box, number) == seen(cold, number) == expected(number)


@pytest.mark.parametrize("in_a_row", [1, 2, 5])
@pytest.mark.parametrize("other", [{_FILES: 32}, {_KIND: "b"}, {_FILES: 128, _KIND: "b"}])
def test_launch_without_template_keeps_own_values(other: Mapping[str, Any], in_a_row: int) -> None:
    boxes = [(sandbox(), {}), (sandbox(**other), other)]
    for number, (box, own) in enumerate(itertools.chain(*([each] * in_a_row for _ in range(4) for each in boxes))):
        assert seen(box, number) == expected(number, **own)


@pytest.mark.parametrize("in_a_row", [1, 2, 5])
def test_arguments_do_not_reach_next_run(in_a_row: int) -> None:
    box = sandbox()
    numbers = itertools.count()
    for _ in range(4):
        for arguments in ((), ("one",), ("two", "three")):
            for number in itertools.islice(numbers, in_a_row):
                assert seen(box, number, arguments) == expected(number, arguments=arguments)


def test_concurrent_kinds_get_their_own_values() -> None:
    async def runs(box: stockade.AsyncRunner, files: int) -> None:
        for number in range(25):
            result = await box.run(_SEEN.replace("{n}", str(number)))
            assert result.check().stdout == expected(number, files=files)

    async def all_of_them() -> None:
        boxes = [
            (stockade.AsyncRunner(sandbox(files=files).policy, backend="native", warm=True), files)
            for files in (32, 64, 96)
        ]
        await asyncio.gather(*(runs(box, files) for box, files in boxes for _ in range(2)))

    asyncio.run(all_of_them())


def test_oversized_template_is_sent_each_time() -> None:
    box = sandbox(kind="x" * 40_000)
    for number in range(6):
        assert seen(box, number) == expected(number, kind="x" * 40_000)


def test_source_of_any_length_arrives_intact() -> None:
    box = sandbox()
    for number in range(4):
        for text in ("", "#" * 100_000, "s = '\N{SNOWMAN}'"):
            source = f"{text}\nprint({number})"
            assert [box.run(each).check().stdout for each in (source, source.encode())] == [f"{number}\n"] * 2


def test_files_do_not_reach_next_run() -> None:
    box = sandbox()
    for number in range(4):
        assert seen(box, number) == expected(number)
        result = box.run("print(open('note').read())", files={"note": str(number)})
        assert result.check().stdout == f"{number}\n"
        assert not box.run("open('note')").ok
