"""The table beside E2B's SDK is what its sources say, and each row that is there names things that exist."""

import re
from pathlib import Path

import stockade
from tests.docs import e2b

ROOT = Path(__file__).parents[2]
CLASSES = "Sandbox|AsyncSandbox|Process|Terminal|Interpreter|Shell|Files|Snapshot|CellLimits|ShellResult"
NAME = re.compile(rf"`((?:{CLASSES})\.[\w.]+)`")


def test_page_is_the_one_that_its_sources_make():
    assert e2b.PAGE.read_text() == e2b.page(), "run: python -m tests.docs.e2b"


def test_entries_are_members_of_the_sdk():
    members = e2b.members()
    for name, entries in e2b.ours().items():
        if name != e2b.SHELL:
            assert set(entries) <= set(members[name]), name


def test_rows_name_members_and_tests_that_exist():
    for _, member, here, test in e2b.rows():
        assert bool(here) == bool(test), member
        if here:
            path, _, name = test.partition("::")
            assert re.search(rf"^(?:    )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), test
            for found in NAME.findall(here):
                assert has(found), found


def has(name):
    """Return whether a class of stockade has the member; an attribute that only objects have counts by its source."""
    first, member, *more = name.split(".")
    kind = getattr(stockade, first)
    if more:  # the streams of a process
        from stockade.api.process import ProcessInput

        kind, member = ProcessInput, more[0]
    sources = [Path(ROOT, "src", *each.__module__.split(".")).with_suffix(".py") for each in kind.__mro__[:-1]]
    own = any(
        re.search(rf"\bself\.(?:\w+, self\.)*{member}\b.*=|^    {member}: ", each.read_text(), re.MULTILINE)
        for each in sources
    )
    return hasattr(kind, member) or own
