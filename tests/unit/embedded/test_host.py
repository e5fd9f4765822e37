"""A script leaves nothing in the process of its host."""

import decimal
import gc
import json
import subprocess
import sys

import pytest

from stockade.embedded import Caps, Runtime, ScriptError
from tests.unit.embedded import audit

KEPT = """
class C:
    def __enter__(self): return self
    def __exit__(self, *a): call('exit')
def f(): call('class')
def g():
    try:
        yield 1
    {ending}
kept = g()
next(kept)
"""
ENDINGS = {
    "finally": "finally: call('finally')",
    "handler": "except BaseException: call('handler')",
    "bare_handler": "except: yield call('bare')",
    "class_of_a_handler": "except (f() or ValueError): pass",
    "unknown_name": "except Unknown: pass",
    "with": "finally: pass\n    with C(): yield 2",
    "closing": "finally: pass\n    import contextlib\n    C.close = lambda self: call('close')\n    with contextlib.closing(C()): yield 2",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_generator_freed_after_its_call_runs_nothing(ending, capfd):
    called = []
    runtime = Runtime(Caps(fuel=10_000), in_process=True)
    runtime.register("call", called.append)
    runtime.run(KEPT.format(ending=ending) + "next(kept, None)" * ("yield 2" in ending))
    del runtime
    gc.collect()
    assert called == []
    assert capfd.readouterr() == ("", "")


def test_generator_freed_in_a_later_call_ends_as_in_cpython():
    called = []
    runtime = Runtime(in_process=True)
    runtime.register("call", called.append)
    runtime.run(KEPT.format(ending=ENDINGS["finally"]))
    runtime.run("kept = None")
    assert called == ["finally"]


def test_generator_in_a_frame_that_raised_ends_with_the_call():
    runtime = Runtime(in_process=True)
    source = "def g():\n  try: yield 1\n  finally: print('closed')\ndef f():\n  kept = g()\n  1 / next(kept) / 0\nf()"
    with pytest.raises(ScriptError, match=r"ZeroDivisionError.*line 6"):
        runtime.run(source)
    assert runtime.stdout == "closed\n"


def test_decimal_context_of_the_host_neither_changes_nor_counts():
    with decimal.localcontext(decimal.Context(prec=3, traps=[])) as context:
        runtime = Runtime(in_process=True)
        runtime.register("third", lambda: str(decimal.Decimal(1) / 3))
        source = "from decimal import Decimal\n(str(Decimal(1) / 3), third())"
        assert runtime.run(source) == ("0." + "3" * 28, "0.333")
        with pytest.raises(ScriptError, match=r"0\.33333333333333333333333333"):
            runtime.run("class E(Exception):\n  def __str__(self): return str(Decimal(1) / 3)\nraise E")
        assert not any(context.flags.values())


def test_hostile_scripts_leave_the_host_as_it_was():
    command = [sys.executable, "-W", "always", "-m", "tests.unit.embedded.audit", "--runs", "60", "--start", "50000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_audit_notices_each_change_of_the_host(monkeypatch):
    before = audit.host_state()
    assert audit.changes(before) == []
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    monkeypatch.setattr(sys, "unraisablehook", print)
    monkeypatch.setitem(sys.modules, "made_by_a_test", json)
    found = audit.changes(before)
    sys.setrecursionlimit(before["recursion limit"])
    assert [each.split(":")[0] for each in found] == ["modules", "hooks", "recursion limit"]


@pytest.mark.parametrize("value", [1, [("a", None)], {"k": {1.5}}])
def test_audit_takes_data_for_data(value):
    assert audit.is_data(value)


@pytest.mark.parametrize("value", [print, [object()], {"k": [ValueError()]}, type])
def test_audit_takes_objects_for_no_data(value):
    assert not audit.is_data(value)
