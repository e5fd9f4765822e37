"""The differences between a warm and a fresh interpreter; docs/guides/warm.md lists all of them."""

from __future__ import annotations

import pytest

import stockade

pytestmark = [pytest.mark.needs("namespaces")]


@pytest.fixture(scope="module")
def outputs():
    """Return a function that gives a program's output from two warm and two fresh interpreters."""
    boxes = [stockade.Runner(backend="native", warm=warm) for warm in (True, True, False, False)]

    def ask(source, **options):
        return [box.run(source, **options).check().stdout.strip() for box in boxes]

    return ask


def test_hash_seed_is_shared(outputs):
    one, two, fresh, other = outputs("print(hash('text'))")
    assert one == two and len({one, fresh, other}) == 3


def test_memory_layout_is_shared(outputs):
    where = "print(next(line for line in open('/proc/self/maps') if '[stack]' in line).split()[0])"
    one, two, fresh, other = outputs(where)
    assert one == two and len({one, fresh, other}) == 3


def test_proc_cmdline_lacks_job_arguments(outputs):
    one, two, fresh, _ = outputs("print(open('/proc/self/cmdline').read().split(chr(0))[-3:])", arguments=["x"])
    assert one == two == "['0', '/job/main.py', '']"
    assert fresh == "['/job/main.py', 'x', '']"
    told = outputs("import sys; print(sys.argv, sys.orig_argv[2:])", arguments=["x"])
    assert set(told) == {"['/job/main.py', 'x'] ['/job/.agent/agent.py', '0', '/job/main.py', 'x']"}


def test_proc_environ_lacks_job_variables(outputs):
    one, two, fresh, _ = outputs(
        "print(sorted(open('/proc/self/environ').read().split(chr(0))))", environment={"A": "b"}
    )
    assert one == two and "A=b" not in one and "LD_BIND_NOW=1" in one
    assert "A=b" in fresh and "LD_BIND_NOW" not in fresh
    told = outputs(
        "import ctypes, os, subprocess\n"
        "of_a_program = subprocess.run(['env'], capture_output=True, text=True).stdout\n"
        "print(ctypes.CDLL(None).getenv(b'LD_BIND_NOW'), os.environ.get('LD_BIND_NOW'), 'LD_' in of_a_program)"
    )
    assert set(told) == {"0 None False"}


def test_agent_frames_have_no_source_lines(outputs):
    one, _, fresh, _ = outputs("import inspect\nprint([bool(frame.code_context) for frame in inspect.stack()[1:]])")
    assert set(one[1:-1].split(", ")) == {"False"}
    assert set(fresh[1:-1].split(", ")) == {"True"}


def test_inode_numbers_restart_with_each_run():
    warm = stockade.Runner(backend="native", warm=True)
    number = "import os\nopen('new', 'w').close()\nos.stat('new').st_ino"
    assert len({warm.run(number).check().value for _ in range(12)}) == 1


def test_mount_list_differs(outputs):
    one, _, fresh, _ = outputs("print(*[line.split()[4] for line in open('/proc/self/mountinfo')])")
    assert one.split() != fresh.split()
    assert {"/", "/usr", "/proc", "/tmp", "/workspace"} <= set(one.split()) & set(fresh.split())
