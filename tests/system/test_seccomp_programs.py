"""Real programs run under the filters, which are loaded as stockade loads them: `-I -S`, bytes, exec."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from stockade.linux.seccomp import install
from stockade.linux.seccomp.filters import build
from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.syscalls import Arch

MACHINE = os.uname().machine
pytestmark = pytest.mark.skipif(MACHINE not in list(Arch), reason=f"no system-call table for {MACHINE}")

SOURCE = str(Path(install.__file__).parents[3])
LOADER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from stockade.linux.seccomp.install import install
ours = sorted(name for name in sys.modules if name.startswith("stockade.linux.seccomp"))
assert ours == ["stockade.linux.seccomp", "stockade.linux.seccomp.install"], ours
with open(sys.argv[2], "rb") as file:
    install(file.read())
os.execvp(sys.argv[3], sys.argv[3:])
"""


def run(which: Filter, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program"
    program.write_bytes(build(which, Arch(MACHINE)))
    command = [sys.executable, "-I", "-S", "-c", LOADER, SOURCE, str(program), *argv]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


def output(which: Filter, folder: Path, *argv: str) -> str:
    done = run(which, folder, *argv)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def python(which: Filter, folder: Path, source: str) -> str:
    (folder / "program.py").write_text(source)
    return output(which, folder, sys.executable, "program.py")


PLAIN = """
import hashlib, json, queue, random, re, tempfile, threading, time, zlib
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    squares = list(pool.map(lambda n: n * n, range(100)))
words = queue.Queue()
threads = [threading.Thread(target=words.put, args=(n,)) for n in range(20)]
[t.start() for t in threads], [t.join() for t in threads]
with tempfile.TemporaryFile("w+") as file:
    json.dump(squares, file); file.seek(0); again = json.load(file)
time.sleep(0.01)
print(sum(again), words.qsize(), re.sub(r"(a+)b", r"\\1", "aab"))
print(hashlib.sha256(b"").hexdigest()[:4], random.random() < 1)
"""

PLAIN_OUTPUT = "328350 20 aa\ne3b0 True"

ASYNCIO = """
import asyncio
async def main():
    server = await asyncio.start_server(lambda r, w: (w.write(b"hello"), w.close()), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    child = await asyncio.create_subprocess_exec("echo", "child", stdout=-1)
    out, _ = await child.communicate()
    print(await reader.read(), out, await asyncio.to_thread(sum, [1, 2]))
    writer.close(); server.close()
asyncio.run(main())
"""

MULTIPROCESSING = """
import multiprocessing as mp
def square(n): return n * n
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = mp.get_context(method)
        with context.Pool(2) as pool:
            print(method, pool.map(square, range(5)))
        value, queue = context.Value("i", 0), context.Queue()
        child = context.Process(target=queue.put, args=(7,)); child.start()
        print(queue.get(), value.value); child.join()
    from multiprocessing.shared_memory import SharedMemory
    memory = SharedMemory(create=True, size=10); memory.buf[0] = 5; print(memory.buf[0])
    memory.close(); memory.unlink()
"""

SUBPROCESS = """
import os, socket, subprocess
print(subprocess.run(["echo", "vfork"], capture_output=True).stdout)
print(subprocess.run("echo shell | cat", shell=True, capture_output=True, preexec_fn=os.setsid).stdout)
print(os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1], socket.if_nameindex()[0][1])
print(socket.getaddrinfo("localhost", 80)[0][4][1], os.popen("echo popen").read())
"""

SCIENCE = """
import numpy, pandas, sklearn
from sklearn.ensemble import RandomForestClassifier
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_score
frame = pandas.DataFrame({"k": list("aab"), "v": [1, 2, 3]}).groupby("k").v.sum()
inverse = numpy.linalg.inv(numpy.eye(200) * 2)
features, labels = make_classification(200, random_state=1)
forest = RandomForestClassifier(10, random_state=1, n_jobs=2)
scores = cross_val_score(forest, features, labels, cv=3, n_jobs=2)
print(inverse[0, 0], frame["a"], scores.mean() > 0.7)
"""

NODE = """
const { execSync } = require('child_process'); const http = require('http');
const { Worker } = require('worker_threads');
const s = http.createServer((q, r) => r.end('http')).listen(0, async () => {
  const text = await (await fetch('http://127.0.0.1:' + s.address().port)).text();
  s.close(); s.closeAllConnections();
  const w = new Worker('require("worker_threads").parentPort.postMessage(40 + 2)', { eval: true });
  w.on('message', m => console.log(text, execSync('echo child').toString().trim(), m,
    require('fs').readFileSync('node.js').length > 10));
});
"""

RUBY = """
require 'socket'; require 'json'; require 'open3'
t = 3.times.map { |n| Thread.new { n * n } }.map(&:value)
out, = Open3.capture2('cat', stdin_data: 'pipe'); pid = fork { exit 3 }; Process.wait pid
puts [t, out, $?.exitstatus, `echo tick`.strip, JSON.generate(a: 1)].inspect
"""

GIT = """
set -e
git init -q . && git config user.email a@b.c && git config user.name n
echo text > file && git add file && git commit -q -m first && git log --format=%s && git gc -q && git status --short
for i in 1 2 3; do echo $i; done | sort -r | head -n 1; (sleep 0.01 & wait)
tar cf - file | tar tf -; cp -p file copy; rm copy
"""


def test_tight_runs_plain_python(tmp_path: Path) -> None:
    assert python(Filter.TIGHT, tmp_path, PLAIN) == PLAIN_OUTPUT


def test_tight_refuses_exec_and_internet_sockets(tmp_path: Path) -> None:
    source = """
import os, socket, subprocess
for attempt in (os.fork, lambda: subprocess.run(["true"]), socket.socket, lambda: os.chmod(".", 0o4755)):
    try: attempt(); print("went through")
    except OSError as error: print(error.errno)
"""
    assert python(Filter.TIGHT, tmp_path, source).split() == ["1", "1", "97", "1"]


@pytest.mark.parametrize("which", [Filter.STANDARD, Filter.PERMISSIVE])
def test_looser_filters_run_plain_python(which: Filter, tmp_path: Path) -> None:
    assert python(which, tmp_path, PLAIN) == PLAIN_OUTPUT


def test_asyncio_runs(tmp_path: Path) -> None:
    assert python(Filter.STANDARD, tmp_path, ASYNCIO) == "b'hello' b'child\\n' 3"


def test_multiprocessing_runs(tmp_path: Path) -> None:
    lines = python(Filter.STANDARD, tmp_path, MULTIPROCESSING).splitlines()
    expected = [(f"{method} [0, 1, 4, 9, 16]", "7 0") for method in ("fork", "spawn", "forkserver")]
    assert lines == [line for pair in expected for line in pair] + ["5"]


def test_subprocess_and_name_lookup_run(tmp_path: Path) -> None:
    lines = python(Filter.STANDARD, tmp_path, SUBPROCESS).splitlines()
    assert lines == ["b'vfork\\n'", "b'shell\\n'", "0 lo", "80 popen"]


@pytest.mark.skipif(not find_spec("sklearn") or not find_spec("pandas"), reason="no pandas and scikit-learn")
def test_numpy_pandas_and_scikit_learn_run(tmp_path: Path) -> None:
    assert python(Filter.STANDARD, tmp_path, SCIENCE) == "0.5 3 True"


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_node_program_runs(tmp_path: Path) -> None:
    (tmp_path / "node.js").write_text(NODE)
    assert output(Filter.STANDARD, tmp_path, "node", "node.js") == "http child 42 true"


@pytest.mark.skipif(not shutil.which("ruby"), reason="no ruby")
def test_ruby_program_runs(tmp_path: Path) -> None:
    expected = '[[0, 1, 4], "pipe", 3, "tick", "{\\"a\\":1}"]'
    assert output(Filter.STANDARD, tmp_path, "ruby", "-e", RUBY) == expected


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_gcc_compiles(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text('#include <stdio.h>\nint main(void) { puts("compiled"); }\n')
    assert output(Filter.STANDARD, tmp_path, "bash", "-c", "gcc -O2 -flto a.c && ./a.out") == "compiled"


@pytest.mark.skipif(not shutil.which("git"), reason="no git")
def test_git_and_bash_run(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    assert output(Filter.STANDARD, folder, "bash", "-c", GIT).split() == ["first", "??", "program", "3", "file"]
