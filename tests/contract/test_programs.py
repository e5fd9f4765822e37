"""Forty programs have the same outcome, exit status, signal, limit and output on every backend.

``DIFFERENT`` names each exception and its reason, as does the page of that backend.
"""

import os

import pytest

import stockade

SHARED = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
SYSTEM_PYTHON = "/usr/bin/python3"
QUICK = {"wall_time": 20}

# Name: (what to run, limits, (outcome, exit status, signal, limit, standard output)). A text is Python, a list a command.
PROGRAMS = {
    "hello": ("print('hello')", {}, ("completed", 0, None, None, "hello\n")),
    "arithmetic": ("print(2 ** 200)", {}, ("completed", 0, None, None, f"{2**200}\n")),
    "unicode": ("print('snow ☃')", {}, ("completed", 0, None, None, "snow ☃\n")),
    "silence": ("pass", {}, ("completed", 0, None, None, "")),
    "exit 3": ("import sys; sys.exit(3)", {}, ("failed", 3, None, None, "")),
    "exit 255": ("import os; os._exit(255)", {}, ("failed", 255, None, None, "")),
    "exit 124": ("import os; os._exit(124)", {}, ("failed", 124, None, None, "")),
    "exit 137": ("import os; os._exit(137)", {}, ("failed", 137, None, None, "")),
    "exception": ("print('a'); 1 / 0", {}, ("failed", 1, None, None, "a\n")),
    "syntax error": ("x = = 1", {}, ("failed", 1, None, None, "")),
    "sigsegv": ("import os; os.kill(os.getpid(), 11)", {}, ("crashed", None, 11, None, "")),
    "sigkill": ("import os; os.kill(os.getpid(), 9)", {}, ("crashed", None, 9, None, "")),
    "abort": ("import os; os.abort()", {}, ("crashed", None, 6, None, "")),
    "sigterm handled": (
        "import os, signal, sys\nsignal.signal(15, lambda *_: sys.exit(7))\nos.kill(os.getpid(), 15)",
        {}, ("failed", 7, None, None, ""),
    ),
    "endless loop": ("while True: pass", {"cpu_time": 0.3}, ("limit_exceeded", None, 9, "cpu_time", "")),
    "sleep": ("import time; print(1, flush=True); time.sleep(60)", {"wall_time": 1.5}, ("limit_exceeded", None, 9, "wall_time", "1\n")),
    "many threads": (
        "import threading\nts = [threading.Thread(target=print, args=(n,)) for n in range(3)]\n"
        "for t in ts: t.start(); t.join()",
        {}, ("completed", 0, None, None, "0\n1\n2\n"),
    ),
    "subprocess": (
        "import subprocess; print(subprocess.run(['sh', '-c', 'exit 9']).returncode)", {}, ("completed", 0, None, None, "9\n"),
    ),
    "orphan": ("import os, time\nif os.fork() == 0: time.sleep(60)\nprint('x')", {}, ("completed", 0, None, None, "x\n")),
    "too many files": (
        "import os\ntry:\n    while True: os.open('/dev/null', 0)\nexcept OSError as e: print(e.errno)",
        {"open_files": 64}, ("completed", 0, None, None, "24\n"),
    ),
    "large file": (["dd", "if=/dev/zero", "of=f", "bs=64k", "count=64", "status=none"], {"file_size": "1MiB"}, ("limit_exceeded", None, 25, "file_size", "")),
    "long output": ("print('x' * 200)", {"output": 100}, ("completed", 0, None, None, f"{'x' * 50}\n[... 101 bytes omitted ...]\n{'x' * 49}\n")),
    "write and read": ("open('f', 'w').write('abc'); print(open('f').read())", {}, ("completed", 0, None, None, "abc\n")),
    "temporary file": (
        "import tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'x'); f.seek(0); print(f.read())",
        {}, ("completed", 0, None, None, "b'x'\n"),
    ),
    "json": ("import json; print(json.dumps({'a': [1, None]}))", {}, ("completed", 0, None, None, '{"a": [1, null]}\n')),
    "hash": ("import hashlib; print(hashlib.md5(b'').hexdigest())", {}, ("completed", 0, None, None, "d41d8cd98f00b204e9800998ecf8427e\n")),
    "sqlite": (
        "import sqlite3; db = sqlite3.connect('d'); db.execute('create table t(x)'); print(db.execute('select 1').fetchone())",
        {}, ("completed", 0, None, None, "(1,)\n"),
    ),
    "asyncio": ("import asyncio\nasync def f(): await asyncio.sleep(0.01); print('x')\nasyncio.run(f())", {}, ("completed", 0, None, None, "x\n")),
    "recursion": ("def f(): f()\ntry: f()\nexcept RecursionError: print('deep')", {}, ("completed", 0, None, None, "deep\n")),
    "no network": (
        "import socket\ntry: socket.create_connection(('192.0.2.1', 80), 2); print('open')\nexcept OSError: print('closed')",
        {}, ("completed", 0, None, None, "closed\n"),
    ),
    "host's files": (
        "try: open('/etc/shadow'); print('open')\nexcept OSError: print('closed')", {}, ("completed", 0, None, None, "closed\n"),
    ),
    "pipes": (["sh", "-c", "printf 'b\\na\\n' | sort | tr -d '\\n'"], {}, ("completed", 0, None, None, "ab")),
    "shell loop": (["sh", "-c", "for i in 1 2 3; do echo $i; done"], {}, ("completed", 0, None, None, "1\n2\n3\n")),
    "shell fails": (["sh", "-c", "false"], {}, ("failed", 1, None, None, "")),
    "not found": (["no-such-program"], {}, ("failed", 127, None, None, "")),
    "not executable": (["/usr"], {}, ("failed", 126, None, None, "")),
    "awk": (["awk", "BEGIN { print 6 * 7 }"], {}, ("completed", 0, None, None, "42\n")),
    "sed": (["sh", "-c", "echo abc | sed s/b/x/"], {}, ("completed", 0, None, None, "axc\n")),
    "environment": (["sh", "-c", "echo ${SECRET-unset} $LANG"], {}, ("completed", 0, None, None, "unset C.UTF-8\n")),
    "kill the group": (["sh", "-c", "kill -9 0"], {}, ("crashed", None, 9, None, "")),
}  # fmt: skip
DIFFERENT = {
    # bwrap, crun and firejail report a death by signal as 128 plus the signal's number.
    ("bubblewrap", "exit 137"): ("crashed", None, 9, None, ""),
    ("oci", "exit 137"): ("crashed", None, 9, None, ""),
    ("firejail", "exit 137"): ("crashed", None, 9, None, ""),
}
BACKENDS = [
    pytest.param("native", marks=pytest.mark.needs("native")),
    pytest.param("process"),
    pytest.param("landlock", marks=pytest.mark.needs("landlock")),
    pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("oci", marks=pytest.mark.needs("crun")),
    pytest.param("firejail", marks=pytest.mark.needs("firejail")),
]


def test_forty_programs_are_compared() -> None:
    assert len(PROGRAMS) == 40


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_the_same_on_every_backend(name: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s")
    what, limits, expected = PROGRAMS[name]
    policy = stockade.Policy(limits=QUICK | limits, accept={} if backend in ("native", "bubblewrap", "oci") else SHARED)
    if isinstance(what, str):
        result = stockade.run(what, policy=policy, backend=backend, interpreter=SYSTEM_PYTHON)
    else:
        result = stockade.run_command(what, policy=policy, backend=backend)
    seen = (result.outcome, result.exit_code, result.signal, result.limit, result.stdout)
    assert seen == DIFFERENT.get((backend, name), expected), (result, os.geteuid())
