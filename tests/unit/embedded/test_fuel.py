"""Fuel is the same to the unit on every supported Python: the figures in fuel.json hold on each. Values are CPython's.

``python -m tests.unit.embedded.test_fuel`` writes the file again. Do that only with a new version of the price list.
"""

import contextlib
import io
import json
import os
from functools import cache
from pathlib import Path

import pytest
from bench.embedded import PROGRAMS as BENCHMARKS

from stockade.embedded import PRICE_VERSION, Caps, ResourceExhausted, Runtime
from tests.unit.embedded.generated import program
from tests.unit.embedded.programs import PROGRAMS

FIGURES = Path(__file__).with_name("fuel.json")
CAPS = Caps(fuel=10**8, frames=300, deadline=60.0, value_bytes=10**7)
ALL, GROUP = 500, 20
GENERATED = ALL if os.environ.get("STOCKADE_WHOLE") else 120


@cache
def metered(source):
    runtime = Runtime(CAPS, in_process=True)
    runtime.run(source)
    return runtime.usage.fuel, runtime.stdout


def figures(generated):
    found = {name: metered(source)[0] for name, source in {**BENCHMARKS, **PROGRAMS}.items()}
    burnt = [[metered(program(start + each))[0] for each in range(GROUP)] for start in range(0, generated, GROUP)]
    return {"prices": PRICE_VERSION, **found, "generated": [" ".join(map(str, group)) for group in burnt]}


def test_fuel_is_the_published_figure_on_this_python():
    published = json.loads(FIGURES.read_text())
    assert len(published["generated"]) == ALL // GROUP
    published["generated"] = published["generated"][: GENERATED // GROUP]
    assert figures(GENERATED) == published


def test_each_figure_below_the_price_of_a_script_ends_it():
    """The last units belong to the border and to the check at the end, and they end it as any other."""
    source = "total = 0\nfor n in range(5):\n    total += n\n{'total': total}"
    price = metered(source)[0]
    assert Runtime(Caps(fuel=price), in_process=True).run(source) == {"total": 10}
    for fuel in range(1, price):
        with pytest.raises(ResourceExhausted) as caught:
            Runtime(Caps(fuel=fuel), in_process=True).run(source)
        assert (caught.value.cap, caught.value.figure) == ("fuel", fuel)


@pytest.mark.parametrize("start", range(0, GENERATED, GROUP))
def test_generated_programs_print_what_cpython_prints(start):
    for number in range(start, start + GROUP):
        source = program(number)
        plain = io.StringIO()
        with contextlib.redirect_stdout(plain):
            exec(compile(source, str(number), "exec"), {"__name__": "__main__"})
        assert metered(source)[1] == plain.getvalue(), source


if __name__ == "__main__":
    FIGURES.write_text(json.dumps(figures(ALL), indent=1) + "\n")
