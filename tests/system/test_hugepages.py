"""The code of a warm interpreter is in huge pages where the kernel gives any, and is what it was."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import stockade

_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_GIVEN = platform.machine() == "x86_64" and _SETTING.exists() and "[never]" not in _SETTING.read_text()
_HELD = """
import ctypes, json, os, resource, sys
from stockade.linux import hugepages
def mapped(): return [line.split()[:2] for line in open("/proc/self/maps") if "heap" not in line]
def faults():
    ours, theirs = os.pipe()
    if os.fork() == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        exec(compile("def f(x): return sorted(str(n) for n in range(x))\\nf(99)", "", "exec"))
        os.write(theirs, str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before).encode())
        os._exit(0)
    os.wait()
    return int(os.read(ours, 99))
if "without" in sys.argv: ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE
code = ctypes.string_at(hugepages.of_interpreter(), 256)
mapped(), faults()
before, maps = faults(), mapped()
size = hugepages.hold_code(hugepages.of_interpreter())
same = mapped() == maps
print(json.dumps([size, before, faults(), same, code == ctypes.string_at(hugepages.of_interpreter(), 256)]))
"""
_HUGE = "sum(int(line.split()[1]) for line in open('/proc/self/smaps') if line.startswith('AnonHugePages'))"


def held(*arguments: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", _HELD, *arguments], capture_output=True, text=True, check=True)
    found: list[int] = json.loads(done.stdout)
    return found


def test_a_child_meets_fewer_faults_where_there_are_huge_pages() -> None:
    size, before, after, _, code = held()
    assert code
    assert bool(size) == _GIVEN
    assert size % (2 << 20) == 0
    assert not _GIVEN or after < before - 10


def test_all_is_as_it_was_where_there_are_none() -> None:
    size, _, _, same, code = held("without")
    assert (size, same, code) == (0, True, True)


@pytest.mark.needs("namespaces")
def test_a_copy_has_its_interpreter_s_code_in_them() -> None:
    box = stockade.Sandbox(backend="native", warm=True)
    assert (box.run(_HUGE).check().value > 0) == _GIVEN
    assert not stockade.run(_HUGE, backend="native", warm=False).check().value
