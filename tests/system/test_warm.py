"""Runs from a warm interpreter look to a program like runs from a fresh one, except for the documented
differences."""

from __future__ import annotations

import asyncio
import subprocess
import time

import pytest
from tests.support import host
from tests.support.warm import seen

import stockade
from stockade import Guarantee
from stockade.client import warden_process

pytestmark = [pytest.mark.needs("namespaces")]

PROGRAMS = {
    "value": "1 + 1",
    "output": "print('one'); print('two', end='')",
    "to stderr": "import sys; print('no', file=sys.stderr)",
    "unicode and bytes": "import sys; sys.stdout.buffer.write(b'\\xff\\x00'); print('\\u20ac')",
    "exit 3": "import sys; sys.exit(3)",
    "exit with a message": "import sys; sys.exit('that was it')",
    "exit -1": "raise SystemExit(-1)",
    "exit 256": "raise SystemExit(256)",
    "exit past a long": "raise SystemExit(1 << 64)",
    "exit 2**40": "raise SystemExit(1 << 40)",
    "os._exit": "import os; print('lost in the buffer?'); os._exit(5)",
    "error": "def f(x):\n    return 1 / x\nf(0)",
    "syntax error": "def f(:",
    "interrupt": "raise KeyboardInterrupt",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "segmentation fault": "import ctypes; ctypes.string_at(0)",
    "abort": "import os; os.abort()",
    "atexit": "import atexit; atexit.register(print, 'at exit'); print('first')",
    "file left open": "f = open('/tmp/x', 'w'); f.write('text')\nimport atexit, os\nprint(os.path.getsize('/tmp/x'))",
    "finalizer": "class A:\n    def __del__(self):\n        print('gone')\na = A()\nprint('there')",
    "finalizer in a cycle that was looked at once": "import gc\nclass A:\n    def __del__(self):\n        print('gone')\na = A(); a.a = a\ngc.collect(1)",
    "finalizer in a cycle that was looked at twice": "import gc\nclass A:\n    def __del__(self):\n        print('gone')\na = A(); a.a = a\ngc.collect(); gc.collect(1)",
    "finalizer in a cycle": "class A:\n    def __del__(self):\n        print('gone')\na = A(); a.a = a",
    "thread": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()\nprint('early')",
    "daemon thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "thread that fails": "import threading\nt = threading.Thread(target=lambda: 1/0, name='t'); t.start(); t.join()",
    "broken output": "import os; os.close(1); print('nowhere')",
    "closed stdout": "import sys; sys.stdout.close()",
    "fork": "import os\nif os.fork() == 0:\n    print('child'); os._exit(0)\nos.wait(); print('parent')",
    "fork that falls through": "import os\npid = os.fork()\nif pid: os.wait()\nprint('parent' if pid else 'child', flush=True)",
    "subprocess": "import subprocess; print(subprocess.run(['echo', 'hello'], capture_output=True, text=True).stdout)",
    "multiprocessing": "import multiprocessing as m\nif __name__ == '__main__':\n    print(m.get_context('fork').Pool(2).map(abs, [-1, -2]))",
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 5\nasyncio.run(f())",
    "orphan": "import os, time\nif os.fork() == 0:\n    time.sleep(60)",
    "arguments": "import sys; print(sys.argv, sys.orig_argv[0] != '', len(sys.orig_argv))",
    "environment": "import os; print(sorted(os.environ.items()))",
    "modules": "import sys; print(sorted(sys.modules))",
    "path": "import sys; print(sys.path, sys.path_importer_cache.keys() >= set())",
    "flags": "import sys; print(sys.flags, sys.dont_write_bytecode, sys.executable, sys.prefix)",
    "main": "import sys; m = sys.modules['__main__']; print(sorted(vars(m)), m.__file__, __name__)",
    "stack": "import inspect, sys; print(len(inspect.stack()), sys.getrecursionlimit())",
    "recursion": "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nf(900)",
    "too deep": "def f():\n    f()\ntry:\n    f()\nexcept RecursionError as e:\n    print(e)",
    "collector": "import gc; print(gc.isenabled(), gc.get_threshold())",
    "signals": "import signal; print({n: str(signal.getsignal(n)) for n in signal.valid_signals() if signal.getsignal(n)})",
    "signal mask": "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))",
    "descriptors": "import os; print(sorted(os.listdir('/proc/self/fd'))); os.fstat(3).st_mode",
    "folder": "import os; print(os.getcwd(), sorted(os.listdir('.')), sorted(os.listdir('/')))",
    "umask": "import os; print(oct(os.umask(0)))",
    "ids": "import os; print(os.getuid(), os.getgid(), os.getgroups(), os.getresuid(), os.getsid(0), os.getpgrp())",
    "pids": "import os; print(os.getpid(), os.getppid(), sorted(int(n) for n in os.listdir('/proc') if n.isdigit()))",
    "limits": "import resource as r; print([r.getrlimit(n) for n in range(r.RLIM_NLIMITS if hasattr(r, 'RLIM_NLIMITS') else 16)])",
    "capabilities": "print([l for l in open('/proc/self/status') if l.startswith(('Cap', 'NoNewPrivs', 'Seccomp', 'Threads', 'Groups'))])",
    "user namespace": "print(open('/proc/self/uid_map').read().split()[::2], open('/proc/sys/user/max_user_namespaces').read())",
    "dumpable": "print(len(open('/proc/self/environ').read()) > 0, open('/proc/self/mem', 'rb').close())",
    "oom": "print(open('/proc/self/oom_score_adj').read())",
    "host name": "import socket; print(socket.gethostname())",
    "interfaces": "print(open('/proc/net/dev').read().count(':'), open('/proc/net/tcp').read())",
    "loopback": "import socket\ns = socket.create_server(('127.0.0.1', 4321)); c = socket.create_connection(('127.0.0.1', 4321)); print('talks')",
    "writes": "for p in ('/tmp/a', '/dev/shm/a', 'a', '/a', '/job/a', '/etc/a', '/proc/a', '/usr/a'):\n    try:\n        open(p, 'w').write('x'); print(p, 'yes')\n    except OSError as e:\n        print(p, e.errno)",
    "modes": "import os; print([(p, oct(os.stat(p).st_mode), os.stat(p).st_uid) for p in ('/', '/tmp', '/dev/shm', '/workspace', '/job', '/job/main.py', '/etc/passwd', '/proc')])",
    "own source": "print(open(__file__).read())",
    "traceback": "import traceback\ndef f():\n    print([l.name for l in traceback.extract_stack()])\nf()",
    "shared memory": "from multiprocessing import shared_memory as s\nm = s.SharedMemory(create=True, size=99); print(m.size); m.close(); m.unlink()",
    "ctypes": "import ctypes; print(ctypes.CDLL(None).abs(-3))",
    "C stream": "import ctypes; ctypes.CDLL(None).printf(b'from C\\n')",
    "input": "print(input()); import sys; print(sys.stdin.read())",
    "operations": "sum(i for i in range(100))",
    "unraisable": "class A:\n    def __del__(self):\n        raise ValueError('x')\nA()",
    "cgroup": "print(open('/proc/self/cgroup').read())",
    "value that JSON has nothing for": "[object, {1: 2, None: 3.5}]",
    "value with itself in it": "a = []\na.append(a)\na",
    "value that is no number": "[float('nan'), 1]",
    "value of a subclass": "import collections\nclass Text(str): pass\n[Text('a'), collections.OrderedDict(b=True), (1,)]",
    "value that cannot be told": "class A:\n    def __repr__(self):\n        1 / 0\nA()",
    "error in the last line": "x = 1\nx / 0",
    "error with a cause": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e",
    "error with a note and no words": "class A(Exception):\n    def __str__(self):\n        1 / 0\ne = A(); e.add_note('n')\nraise e",
    "error of a group": "raise ExceptionGroup('g', [ValueError(1), KeyError('k')])",
    "error with a hint": "colour = 1\ncolor",
    "error beside a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(.1,)).start()\n1 / 0",
    "error with a hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0])\n1 / 0",
    "syntax error in the last line": "x = 1\nx +",
    "error without stderr": "import sys\ndel sys.stderr\n1/0",
    "error without a hook": "import sys\ndel sys.__excepthook__\n1/0",
    "error with a long chain": "e = None\nfor i in range(5000):\n    n = ValueError(i); n.__cause__ = e; e = n\nraise e",
    "error whose class has no name": "class M(type):\n    __name__ = 5\nclass E(Exception, metaclass=M): pass\nraise E",
    "stderr that cannot be flushed": "import sys\nclass A:\n    def write(self, x): pass\n    def flush(self): raise ValueError\nsys.stderr = A()\n5",
    "exit with what cannot be told": "class A:\n    def __str__(self): raise ValueError\nraise SystemExit(A())",
    "constants of one program": "a = 1000\nassert a is 1000",
    "warning": "x = 1\nx is 1",
    "annotations": "x: int = 3\nprint(__annotations__)",
}


@pytest.fixture(scope="module")
def fresh():
    return stockade.Runner(backend="native", warm=False)


@pytest.fixture(scope="module")
def warm():
    return stockade.Runner(backend="native", warm=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_runs_as_in_fresh_interpreter(name, fresh, warm):
    options = {"stdin": "first\nrest", "arguments": ["a", "b"]}
    assert seen(warm.run(PROGRAMS[name], **options)) == seen(fresh.run(PROGRAMS[name], **options))


def is_warm(result):
    return bool(result.shared)


def test_repeated_kind_is_kept_warm():
    with stockade.Runner(stockade.Policy(limits={"disk": "41MiB"}), backend="native") as box:
        assert not is_warm(box.run("1"))
        assert wait_for(lambda: is_warm(box.run("1")))
        assert not is_warm(box.run("1", environment={"PYTHONHASHSEED": "1"}))
        assert not is_warm(box.run_command(["true"]))


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_fresh_interpreter_shares_nothing(fresh, warm):
    assert fresh.run("1").shared == ""
    assert "hash seed" in warm.run("1").shared
    assert fresh.run("hash('x')").value != fresh.run("hash('x')").value
    assert warm.run("hash('x')").value == warm.run("hash('x')").value


def test_preloaded_modules_are_not_shared_between_jobs():
    with stockade.Runner(backend="native", preload=["decimal", "json"]) as box:
        loaded = "import sys\n[name in sys.modules for name in ('decimal', 'json', 'fractions')]"
        assert box.run(loaded).value == [True, True, False]
        assert box.run("import decimal; decimal.getcontext().prec = 3; decimal.x = 1").ok
        assert box.run("import decimal; [decimal.getcontext().prec, hasattr(decimal, 'x')]").value == [28, False]


@pytest.mark.parametrize(
    ("preload", "reason"),
    [
        (["no_such_module"], "ModuleNotFoundError"),
        (["this.that"], "ModuleNotFoundError"),
        (["antigravity_"], "antigravity_"),
    ],
)
def test_preload_failure_names_the_module(preload, reason):
    result = stockade.run("1", backend="native", preload=preload)
    assert result.outcome is stockade.Outcome.SANDBOX_FAILED
    assert reason in result.error.message


@pytest.mark.parametrize("preload", ["numpy", b"numpy", ["a b"], [1], ["a..b"], [""]])
def test_preload_other_than_module_list_is_refused(preload):
    with pytest.raises(stockade.JobError, match="preload"):
        stockade.Runner(preload=preload)


def test_preload_with_warm_false_is_refused():
    with pytest.raises(stockade.JobError, match="warm=False"):
        stockade.Runner(preload=["json"], warm=False)


@pytest.mark.parametrize("options", [{"environment": {"LD_DEBUG": "1"}}, {"environment": {"PYTHONPATH": "/x"}}])
def test_job_needing_fresh_interpreter_says_why(options, warm):
    with pytest.raises(stockade.JobError, match="warm: a fresh interpreter is needed"):
        warm.run("1", **options)


def test_tight_filter_runs_warm():
    box = stockade.Runner(stockade.Policy(security={"syscalls": "tight"}), backend="native", warm=True)
    result = box.run("import os\ntry:\n    os.fork()\nexcept OSError as e:\n    print(e.errno)")
    assert (result.stdout, is_warm(result)) == ("1\n", True)


FILES = {"helper.py": "x = 5", "deep/er/data.txt": "text" * 999, "empty": b""}


@pytest.mark.parametrize("source", [
    "import helper\nprint(helper.x, helper.__file__)",
    "import os\nprint([(a, sorted(b), [(n, oct(os.stat(a + '/' + n).st_mode), os.stat(a + '/' + n).st_uid) for n in sorted(c)]) for a, b, c in os.walk('.')])",
    "open('deep/er/data.txt', 'a').write('more'); os = __import__('os'); os.remove('empty'); os.rename('deep', 'd')\nprint(os.listdir('d/er'))",
    "import os\ns = os.statvfs('.')\nprint(s.f_blocks, s.f_bfree, s.f_files, s.f_ffree)",
    "with open('fill', 'wb') as f:\n    try:\n        while True: f.write(bytes(4096)); f.flush()\n    except OSError as e:\n        print(e.errno, f.tell())",
])  # fmt: skip
def test_workspace_files_are_as_in_fresh_sandbox(source):
    policy = stockade.Policy(limits={"disk": "2MiB"})
    fresh, warm = (stockade.Runner(policy, backend="native", warm=warm) for warm in (False, True))
    ends = [box.run(source, files=FILES, artifacts=["fill*", "d/**"]) for box in (fresh, warm)]
    assert seen(ends[0]) == seen(ends[1])
    assert ends[0].artifacts == ends[1].artifacts and is_warm(ends[1])
    assert ends[0].limits_met[Guarantee.DISK] == ends[1].limits_met[Guarantee.DISK]


@pytest.fixture
def environment(tmp_path):
    """Return a virtual environment below /tmp, with a module ``kept`` in it."""
    made = tmp_path / "env"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", made], check=True)
    (next(made.glob("lib/python3*")) / "site-packages" / "kept.py").write_text("place = __file__")
    for each in (made, *made.rglob("*")):
        if not each.is_symlink():
            each.chmod(each.stat().st_mode | (0o555 if each.is_dir() else 0o444))
    return made


def test_environment_below_tmp_runs_warm_and_stays_read_only(environment):
    source = f"""import os, pathlib, sys
import kept
try:
    pathlib.Path({str(environment)!r}, 'mine').touch()
except OSError as e:
    print(e.strerror)
pathlib.Path('/tmp/mine').touch()
print(kept.place, os.listdir({str(environment.parent)!r}))"""
    fresh, warm = (stockade.Runner(backend="native", warm=warm) for warm in (False, True))
    ends = [box.run(source, packages=environment) for box in (fresh, warm, warm)]
    assert [is_warm(each) for each in ends] == [False, True, True]
    assert seen(ends[0]) == seen(ends[1]) == seen(ends[2])
    assert ends[0].stdout.startswith("Read-only file system\n")
    assert ends[0].stdout.endswith("/kept.py ['env']\n")
    assert not [*environment.rglob("mine")]


def test_preload_from_environment_below_tmp_is_there(environment):
    result = stockade.run("import sys; 'kept' in sys.modules", preload=["kept"], packages=environment, backend="native")
    assert result.value is True


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"network": "host"}, "the network is the host's"), ({"language": "shell"}, "cannot be kept warm")],
)
def test_preload_without_a_warm_interpreter_is_refused(options, reason):
    with pytest.raises(stockade.JobError, match=f"preload: a fresh interpreter is needed: .*{reason}"):
        stockade.run("1", backend="native", preload=["json"], **options)


def test_result_says_why_the_interpreter_was_fresh(warm):
    policy = stockade.Policy(limits={"wall_time": 17.25})  # a kind that no other test runs
    first = stockade.run("1", policy=policy, backend="native")
    assert "the first runs of a kind start a fresh interpreter" in first.cold
    assert stockade.run("1", backend="native", warm=False).cold == "warm=False forbids a warm interpreter"
    assert stockade.run("1", backend="native", network="host").cold == "the network is the host's"
    assert (stockade.run_command(["true"]).cold, warm.run("1").cold) == ("", "")
    assert stockade.Result.from_dict(first.to_dict()) == first


def test_backend_without_warm_runs_says_so():
    box = stockade.Runner(
        stockade.Policy(accept={"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}),
        backend="process",
        warm=True,
    )
    with pytest.raises(stockade.JobError, match=r"warm: .*the backend process keeps no interpreter warm"):
        box.run("1", interpreter="/usr/bin/python3")


@pytest.mark.timing  # a busy machine takes too long to set up the last of sixty
def test_many_concurrent_runs_are_each_alone():
    async def main():
        async with stockade.AsyncRunner(backend="native", warm=True) as box:
            one = "import os, time\nopen('/tmp/mine', 'x').write('{0}'); time.sleep(0.02)\n[{0}, os.listdir('/tmp'), len([n for n in os.listdir('/proc') if n.isdigit()])]"
            results = await asyncio.gather(*(box.run(one.format(number)) for number in range(60)))
            assert not [result.explain() for result in results if not result.ok]
            assert [result.value for result in results] == [[number, ["mine"], 2] for number in range(60)]

    asyncio.run(main())


def test_random_numbers_differ_between_runs():
    with stockade.Runner(backend="native", preload=["random", "uuid"]) as box:
        drawn = {box.run("import random, uuid; str(random.random()) + str(uuid.uuid4())").value for _ in range(20)}
    assert len(drawn) == 20


def test_run_that_leaves_nothing_is_answered_early(warm):
    # On a busy machine the proof may be there first; what is never there is an answer without one where one is needed.
    assert any(is_pending(warm.run("1")) for _ in range(10)) == counts_memory()
    assert not is_pending(warm.run("import os, time\nif not os.fork(): time.sleep(9)"))
    assert not is_pending(warm.run("open('a', 'w')", artifacts=["*"]))


def test_stream_finishes_when_nothing_is_left(warm):
    for _ in range(20):
        with warm.stream("1") as run:
            *_, last = run
        assert last == stockade.Finished(run.result) and is_warm(run.result) and not is_pending(run.result)


def is_pending(result):
    return result.enforcement[stockade.Guarantee.NO_SURVIVORS].note.startswith("pending")


def test_surplus_workers_are_released():
    """When nobody has needed the others for some seconds, two workers of many are left."""
    host.stop_warden()
    at_once = 6

    async def main():
        async with stockade.AsyncRunner(backend="native", warm=True) as box:
            await asyncio.gather(*(box.run("import time; time.sleep(1)") for _ in range(at_once)))
            assert host.eventually(lambda: processes() >= 2 * at_once, 5)
            assert host.eventually(lambda: processes() <= 2 * 2, 20), processes()
            results = await asyncio.gather(*(box.run("1") for _ in range(at_once)))
            assert all(is_warm(result) for result in results)

    asyncio.run(main())


def processes():
    """Return how many processes a warm interpreter has, beside itself and its parent."""
    own = host.descendants(warden_process.current().pid)
    return sum("/job/" in host.read(f"/proc/{pid}/cmdline") for pid in own) - 2


def counts_memory():
    return "memory" in warden_process.host_facts().cgroups
