"""The zygote before any guest runs: it executes no code of a guest, and its guests share nothing through it."""

from __future__ import annotations

import os
import sys
import time
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import stockade
from stockade import JobError, Outcome, Policy

pytestmark = pytest.mark.needs("native")

Keeping = Callable[[str], stockade.Runner]
RUNS = 3


@pytest.fixture(scope="module")
def packages() -> Iterator[Path]:
    """Make a virtual environment, outside /tmp, because every sandbox has its own /tmp."""
    with TemporaryDirectory(dir="/var/tmp", prefix="stockade-test-") as folder:
        Path(folder).chmod(0o755)
        venv.create(folder, symlinks=True)
        yield Path(folder)


@pytest.fixture
def keeping(packages: Path) -> Callable[[str], list[stockade.Result]]:
    """Return a function that runs ``code`` some times, in an interpreter that has imported a module with ``text``."""
    place = packages / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"

    def run(text: str, code: str) -> list[stockade.Result]:
        name = f"kept_{abs(hash(text)):x}"
        (place / f"{name}.py").write_text(text)
        box = stockade.Runner(backend="native", preload=[name])
        return [box.run(code.replace("kept", name), packages=packages) for _ in range(RUNS)]

    return run


def test_preloaded_module_is_imported_once(keeping) -> None:
    results = keeping("import os\nnumber = os.urandom(8).hex()", "import kept; print(kept.number)")
    assert all(result.ok for result in results)
    assert len({result.stdout for result in results}) == 1  # otherwise the tests below prove nothing


def test_import_finders_keep_only_foreign_ones(keeping) -> None:
    text = "import sys\nclass Own:\n    def find_spec(self, *_): pass\nsys.meta_path.insert(0, Own())"
    code = "import sys, kept\nprint([type(each).__name__ for each in sys.meta_path if not isinstance(each, type)])"
    for result in keeping(text, code):
        assert "'Own'" in result.stdout and "Importer" not in result.stdout, result


def test_slow_preload_does_not_block_others(packages: Path) -> None:
    place = packages / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    (place / "kept_slow.py").write_text("import time\ntime.sleep(3)")
    many = 20 * len(os.sched_getaffinity(0))
    slow, other = stockade.Runner(backend="native", preload=["kept_slow"]), stockade.Runner(backend="native")
    assert other.run_command(["true"]).ok
    with ThreadPoolExecutor(many) as pool:
        begin = time.monotonic()
        runs = [pool.submit(slow.run, "1", packages=packages) for _ in range(many)]
        time.sleep(0.5)
        assert other.run_command(["true"]).ok
        assert time.monotonic() - begin < 2.5 and not any(run.done() for run in runs)
        assert all(run.result().ok for run in runs)


SAYS = {
    "says more": ("import builtins\nwas = print\nbuiltins.print = lambda *a, **k: was('more', *a, **k)", "more one\n"),
    "says else": (
        "import sys\nclass Out:\n    closed = False\n    def write(self, text):\n        sys.__stdout__.write('else ')\n    flush = sys.stdout.flush\nsys.stdout = Out()",
        "else else ",
    ),
    "fails": ("import builtins\ndef fail(*a, **k):\n    raise OSError('not now')\nbuiltins.print = fail", ""),
}


@pytest.mark.parametrize(("text", "said"), SAYS.values(), ids=SAYS)
def test_output_changed_by_module_is_used(keeping, text: str, said: str) -> None:
    for result in keeping(text, "print('one')"):
        assert result.shared and result.stdout == said
        assert result.ok == bool(said)


SHARED = {
    "anonymous": "import mmap\nshared = mmap.mmap(-1, 4096)",
    "file": "import mmap, tempfile\nf = tempfile.TemporaryFile()\nf.truncate(4096)\nshared = mmap.mmap(f.fileno(), 4096)\nf.close()",
    "lock": "import multiprocessing\nlock = multiprocessing.Lock()",
    "readable so far": "import mmap, os, tempfile\nname = tempfile.mktemp()\nf = open(name, 'w+b')\nf.truncate(4096)\n"
    "shared = mmap.mmap(f.fileno(), 4096, prot=mmap.PROT_READ)\nf.close()",
}


@pytest.mark.parametrize("text", SHARED.values(), ids=SHARED)
def test_shared_memory_in_zygote_is_refused(keeping, text: str) -> None:
    for result in keeping(text, "1"):
        assert result.outcome is Outcome.SANDBOX_FAILED
        assert "all runs would share" in result.summary()


def test_private_memory_in_zygote_is_allowed(keeping) -> None:
    text = "import mmap\nf = open('/etc/passwd', 'rb')\na = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\nf.close()\na.close()\nb = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE)"
    assert all(result.ok for result in keeping(text, "import kept; kept.b[:1] = b'x'"))


DRAWN = {
    "OpenSSL": ("import ssl\nssl.RAND_bytes(1)", "import ssl; print(ssl.RAND_bytes(16))"),
    "OpenSSL, by a child": (
        "import ssl\nssl.RAND_bytes(1)",
        "import os, ssl\nif os.fork() == 0:\n    print(ssl.RAND_bytes(16), flush=True); os._exit(0)\nos.wait()",
    ),
    "SQLite": (
        "import sqlite3\nsqlite3.connect(':memory:').execute('select random()').fetchone()",
        "import sqlite3; print(sqlite3.connect('/tmp/x').execute('select random()').fetchone())",
    ),
    "tempfile": ("import tempfile\ntempfile.mktemp()", "import tempfile; print(tempfile.mktemp())"),
    "random": ("import random\nrandom.random()", "import random; print(random.random())"),
    "secrets": ("import secrets\nsecrets.token_hex()", "import secrets; print(secrets.token_hex())"),
    "multiprocessing": (
        "import multiprocessing",
        "import multiprocessing as m; print(bytes(m.current_process().authkey))",
    ),
    "uuid": ("import uuid\nuuid.uuid4()", "import uuid; print(uuid.uuid4())"),
}


@pytest.mark.parametrize(("text", "code"), DRAWN.values(), ids=DRAWN)
def test_random_numbers_differ_between_runs(keeping, text: str, code: str) -> None:
    printed = [result.stdout for result in keeping(text, code)]
    assert all(printed) and len(set(printed)) == RUNS


def test_output_of_an_import_reaches_no_run(keeping) -> None:
    text = "import ctypes\nprint('at import')\nctypes.CDLL(None).printf(b'at import')"
    assert [result.stdout for result in keeping(text, "print('run')")] == ["run\n"] * RUNS


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONHOME", "PYTHONWARNINGS", "PYTHONUSERBASE", "HOME", "LD_PRELOAD"])
def test_variable_that_loads_code_refuses_warm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/nowhere")
    for policy in ({"set": {name: "/nowhere"}}, {"inherit": [name]}):
        with pytest.raises(JobError, match=f"warm: .*{name}"):
            stockade.run("1", policy=Policy.parse({"environment": policy}), backend="native", warm=True)
    with pytest.raises(JobError, match=f"warm: .*{name}"):
        stockade.run("1", environment={name: "/nowhere"}, backend="native", warm=True)


def test_startup_code_runs_inside_sandbox() -> None:
    """The runs are enough to start a zygote, which would execute this code with its own rights if it were allowed."""
    with TemporaryDirectory(dir="/var/tmp", prefix="stockade-test-") as folder:
        Path(folder).chmod(0o755)
        Path(folder, "sitecustomize.py").write_text(
            "import builtins\nbuiltins.status = open('/proc/self/status').read()"
        )
        policy = Policy.parse({"filesystem": {"read": [folder]}, "environment": {"set": {"PYTHONPATH": folder}}})
        box = stockade.Runner(policy, backend="native")
        seen = [box.run("import builtins, time; time.sleep(0.2); print(builtins.status)").stdout for _ in range(5)]
    assert all("CapEff:\t0000000000000000\n" in each and "Seccomp:\t2\n" in each for each in seen)
