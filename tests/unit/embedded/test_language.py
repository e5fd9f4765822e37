"""Programs print the same in a runtime as under CPython itself, of this version."""

import contextlib
import io

import pytest
from examples.humaneval.problems import load

from stockade.embedded import Caps, Runtime, ScriptError
from tests.unit.embedded.differential import differences
from tests.unit.embedded.programs import PROGRAMS

CAPS = Caps(fuel=10**8, heap_objects=10**6, frames=200, deadline=30.0, symbols=10_000, value_bytes=10**7)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_prints_what_cpython_prints(name):
    plain = io.StringIO()
    with contextlib.redirect_stdout(plain):
        exec(compile(PROGRAMS[name], name, "exec"), {"__name__": "__main__"})
    runtime = Runtime(CAPS, in_process=True)
    runtime.run(PROGRAMS[name])
    assert runtime.stdout == plain.getvalue()


NOT_IN_SCRIPTS = {32: "'random' object has no attribute 'Random'", 160: "name 'eval' is not defined"}


def test_humaneval_solutions_run_unchanged_but_for_two():
    refused = {}
    for problem in load():
        try:
            Runtime(CAPS, in_process=True).run(f"{problem.reference}\n{problem.test}\ncheck({problem.entry_point})")
        except ScriptError as error:
            refused[problem.number] = error.message
    assert refused == NOT_IN_SCRIPTS


@pytest.mark.filterwarnings("ignore")
def test_generated_expressions_have_the_values_of_cpython():
    found = [text for number in range(40) for kind, text in differences(number) if kind == "unknown"]
    assert not found, "\n".join(found)


def test_number_times_a_text_repeats_it():
    assert Runtime(in_process=True).run("n = 3\n[n * 'ab', 2 * b'c', 'd' * n]") == ["ababab", b"cc", "ddd"]
    with pytest.raises(ScriptError, match="unsupported operand"):
        Runtime(in_process=True).run("3 * None")


def test_value_too_large_for_a_machine_is_an_error_of_the_script():
    runtime = Runtime(in_process=True)
    assert runtime.run("try: 'a' * 10**40\nexcept MemoryError as e: text = str(e)\ntext").endswith("is refused")
    assert not runtime.is_dead
