"""Runs from a warm interpreter: nothing that a program can see tells them from those of a fresh one, but for what is
written down."""

from __future__ import annotations

import re

import pytest

import stockade

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
    "annotations": "x: int = 3\nprint(__annotations__)",
}


@pytest.fixture(scope="module")
def fresh():
    return stockade.Sandbox(backend="native", warm=False)


@pytest.fixture(scope="module")
def warm():
    return stockade.Sandbox(backend="native", warm=True)


def seen(result):
    """All that a program had to say, without addresses and without where in the agent a line stands."""
    said = (result.stdout, result.stderr, result.value_repr, str(result.error))
    text = [re.sub(r"0x[0-9a-f]+|(?<=agent.py\", line )\d+", "#", str(each)) for each in said]
    return result.outcome, result.exit_code, result.signal, *text


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_as_in_a_fresh_interpreter(name, fresh, warm):
    options = {"stdin": "first\nrest", "arguments": ["a", "b"]}
    assert seen(warm.run(PROGRAMS[name], **options)) == seen(fresh.run(PROGRAMS[name], **options))
