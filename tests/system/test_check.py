"""``stockade.check`` reads hostile source in a real sandbox."""

from __future__ import annotations

import pytest

import stockade
from stockade.languages.python import of_the_system


def test_check_in_a_sandbox_names_line_and_kind() -> None:
    source = "import re, no_such_module, helper\nre.match('(a+)+$', x)\nwhile True: pass\n"
    advice = stockade.check(source, files={"helper.py": ""})
    assert [(each.line, each.kind.value) for each in advice] == [(1, "import"), (2, "pattern"), (3, "loop")]


@pytest.mark.parametrize("backend", ["process", pytest.param("landlock", marks=pytest.mark.needs("landlock"))])
def test_check_works_without_namespaces(backend) -> None:
    assert [each.kind for each in stockade.check("import nothing", backend=backend, interpreter=of_the_system())] == [
        "import"
    ]


def test_check_names_the_interpreter_whose_packages_it_searched() -> None:
    (advice,) = stockade.check("import no_such_module", interpreter=of_the_system())
    assert f"the packages are those of {of_the_system()}; interpreter= or --interpreter" in advice.message


def test_check_does_not_run_the_source(tmp_path) -> None:
    witness = tmp_path / "witness"
    assert stockade.check(f"open({str(witness)!r}, 'w')\nprint(1)") == []
    assert not witness.exists()


def test_check_module_of_the_source_replaces_nothing() -> None:
    (advice,) = stockade.check("import ast, re, checker\neval('1')", files={"ast.py": "", "checker.py": ""})
    assert advice.line == 2


def test_check_hostile_source_ends_in_time() -> None:
    try:
        advice = stockade.check("while True: pass\n" * 15_000)
    except stockade.JobError as error:
        pytest.fail(f"an ordinary size must be checked: {error}")
    assert len(advice) == 500
