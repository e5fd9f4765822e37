"""The floor: a bare fork of a warm interpreter, without any isolation. Nothing that starts Python can be below it.

The interpreter is a process of its own, as bare as the one that stockade keeps warm. It loads the same modules and
takes the same care for pages (gc.freeze). It takes its own times, so that asking it costs nothing. It runs this very
file, which imports nothing of ours.
"""

import gc
import marshal
import os
import sys
import time


def run(source):
    """Fork, compile and execute, read the output to its end, and wait; return what was printed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.dup2(writing, 1)
        exec(compile(source, "main.py", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
        sys.stdout.flush()
        os._exit(0)
    os.close(writing)
    said = b""
    while data := os.read(reading, 1 << 16):
        said += data
    os.close(reading)
    os.waitpid(pid, 0)
    return said.decode()


def serve(source, target):
    """Take a list of programs and how many seconds apart to begin them; answer with nanoseconds and outputs."""
    while True:
        try:
            programs, pace = marshal.load(source)
        except EOFError:
            return
        times, outputs = [], []
        due = time.monotonic()
        for program in programs:
            wait_until(due)
            begin = time.perf_counter_ns()
            outputs.append(run(program))
            times.append(time.perf_counter_ns() - begin)
            due = max(due + pace, time.monotonic() if not pace else 0)
        target.write(marshal.dumps((times, outputs)))
        target.flush()


def wait_until(due):
    """Sleep until ``due`` by the monotonic clock."""
    left = due - time.monotonic()
    if left > 0:
        time.sleep(left)


class Floor:
    """The bench's side: one such interpreter, with ``modules`` loaded."""

    def __init__(self, modules=()):
        import subprocess
        from pathlib import Path

        executable = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
        paths = os.pathsep.join(path for path in sys.path if "site-packages" in path) if modules else ""
        environment = {"PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"} | ({"PYTHONPATH": paths} if paths else {})
        self._process = subprocess.Popen(
            [executable, "-B", __file__, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def begin(self, programs, pace=0.0):
        """Have it run ``programs``, ``pace`` seconds from one start to the next; 0 is back to back."""
        self._process.stdin.write(marshal.dumps((programs, pace)))
        self._process.stdin.flush()

    def end(self):
        """Return milliseconds and outputs of what was begun."""
        times, outputs = marshal.load(self._process.stdout)
        return [each / 1e6 for each in times], outputs

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        __import__(name)
    answers = os.fdopen(os.dup(1), "wb")
    gc.collect()
    gc.freeze()
    serve(sys.stdin.buffer, answers)
