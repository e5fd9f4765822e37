"""The grammar of requirements, and the metadata in a script."""

from __future__ import annotations

import pytest

from stockade import JobError, RequirementError
from stockade.api.packages.wanted import checked, inline, name

SCRIPT = "# /// script\n# {}\n# ///\nprint(1)\n"


@pytest.mark.parametrize("text", [
    "pandas", "a", "zope.interface", "matplotlib>=3.8", "x ~= 1.2, != 1.2.3", "x[a,b] (>=1)", "x==1.*", "x===1+local",
    "x; python_version < '3.12' and sys_platform == \"linux\"", "x==1 --hash=sha256:" + "a" * 64,
])  # fmt: skip
def test_requirement_of_an_index_is_taken(text: str) -> None:
    assert checked([text]) == (" ".join(text.split()),)


@pytest.mark.parametrize("text", [
    "", "-r file", "--index-url=x", "x --index-url=y", "x; a --index-url=y", "x @ http://h/x.whl", "./x", "x/y", "http://h/x.whl",
    "git+ssh://x", "x\n--index-url=y", "x # y", "x==$HOME", "${HOME}", "x --hash=md5:aa", "-x", "x>=", "é", "x" * 3000, "x\0",
])  # fmt: skip
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(RequirementError, match="requirements = "):
        checked([text])


def test_requirements_are_a_list_of_bounded_length() -> None:
    with pytest.raises(JobError):
        checked("pandas")
    with pytest.raises(JobError):
        checked([1])  # type: ignore[list-item]
    with pytest.raises(RequirementError, match="more than"):
        checked(["x"] * 201)
    assert checked(["b", "a", "b"]) == ("a", "b")


def test_name_is_compared_as_the_index_does() -> None:
    assert [name(each) for each in ("A_b", "a.B>=1", "a-b[x]==1")] == ["a-b"] * 3


@pytest.mark.parametrize(("line", "expected"), [
    ('dependencies = ["b", "a>=1"]', ("a>=1", "b")),
    ('requires-python = ">=3.11, !=3.11.1, <4, ==3.*, ~=3.10"', ()),
    ("", ()),
])  # fmt: skip
def test_metadata_of_a_script_is_read(line: str, expected: tuple[str, ...]) -> None:
    assert inline(SCRIPT.format(line).encode(), (3, 11, 7)) == expected
    assert inline(b"print(1)", (3, 11, 7)) == ()


@pytest.mark.parametrize("line", [
    "dependencies = [", 'dependencies = "a"', 'dependencies = ["a @ file:///x"]', 'requires-python = ">=3.12"',
    'requires-python = "==3.11"', 'requires-python = "<3.11.7"', 'requires-python = "~=3.11.8"', 'requires-python = "3"',
    "\n# ///\n# /// script\n#",
])  # fmt: skip
def test_unusable_metadata_is_refused(line: str) -> None:
    with pytest.raises(RequirementError):
        inline(SCRIPT.format(line).encode(), (3, 11, 7))
