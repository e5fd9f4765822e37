"""Programs print the same in a runtime as under CPython itself, of this version."""

import contextlib
import io

import pytest

from stockade.embedded import Caps, Runtime
from tests.unit.embedded.programs import PROGRAMS

CAPS = Caps(fuel=10**7, heap_objects=10**6, frames=200, deadline=30.0, symbols=10_000, value_bytes=10**7)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_prints_what_cpython_prints(name):
    plain = io.StringIO()
    with contextlib.redirect_stdout(plain):
        exec(compile(PROGRAMS[name], name, "exec"), {"__name__": "__main__"})
    runtime = Runtime(CAPS, in_process=True)
    runtime.run(PROGRAMS[name])
    assert runtime.stdout == plain.getvalue()
