"""The Python zygote: imports the modules to preload, then waits to be forked. Each guest runs one job and ends.

The agent is the same as in a fresh interpreter. ``python_start`` executes this file, compiled, in its own namespace.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _weakref
    import atexit
    import gc
    from typing import Any

    from stockade.languages.agents.python_start import FOLDER, enter_package, files, importer

_FLUSH_FAILED = 120  # Python's exit status if it cannot flush its streams
_WARM_UP = b"""import sys
def f(x):
    return [x + 1 for _ in range(9)]
print(f"{f(2)}"[:0], end="")
"""
_EXERCISES = {
    "numpy": b"""import numpy
a = numpy.arange(9.0).reshape(3, 3)
b = (a @ a)[a > 3].sum() + a.mean() + numpy.array([1, 2]).max()
f"{a} {b}"
""",
    "pandas": b"""import pandas
f = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]})
s = f["a"].sum() + f["b"].mean() + f[f["a"] > 1]["b"].max()
f"{f} {f['a']} {s}"
""",
}
"""Typical uses of popular modules. Pages that these touch in the zygote are not copied in each guest."""
_TYPE, _REGULAR = 0o170000, 0o100000  # of the mode in stat(2)
_TIMES = 3
"""Repetitions of the sample job, so that the interpreter's inline caches are filled before the fork.

From the eighth time on, the interpreter would adapt the agent's code (PEP 659). Adapted calls count differently towards
the recursion limit.
"""


def renumber() -> None:
    """Continue in a child process, so that no fork has the pid of the process that imports the modules.

    Some libraries detect a fork only by a changed pid, and then take fresh random numbers (OpenSSL 3, SQLite,
    ``tempfile``). The first process stays, because its end is awaited.
    """
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)


def prepare() -> tuple[Any, Any, bytes]:
    """Import the modules to preload, then stockade's modules, which are removed from ``sys.modules`` again.

    Returns the modules ``zygote`` and ``trace``, and the source of a sample job.
    """
    names = read("preload").decode().split()
    exercises = {name: _EXERCISES[name] for name in names if name in _EXERCISES}
    trouble = preload(names, exercises)
    kept = set(sys.modules)
    enter_package()
    sys.meta_path.insert(0, importer)
    from stockade.core import trace as _trace
    from stockade.warden.warm import zygote

    sys.meta_path.remove(importer)  # an import may have changed its position
    for name in set(sys.modules) - kept:
        del sys.modules[name]
    if trouble:
        zygote.refuse(trouble)
    sys.stdout.flush()  # else every guest would print the output of the imports again
    sys.stderr.flush()
    zygote.flush()
    return zygote, _trace, b"".join(exercises.values()) + _WARM_UP


def preload(names: list[str], exercises: dict[str, bytes]) -> str:
    """Import the modules and run their exercises; return why they cannot be preloaded, or an empty text.

    An exercise that fails is removed from ``exercises``.
    """
    before = set(os.listdir("/proc/self/fd"))
    for name in names:
        try:
            __import__(name)
        except BaseException as error:
            return f"preload: {name} cannot be imported: {type(error).__name__}: {error}"
        try:
            exec(exercises.get(name, b""), {})  # the module does its lazy set-up here, once for all guests
        except Exception:
            del exercises[name]  # an unknown version of the module; its guests only start slower
        threads = len(os.listdir("/proc/self/task")) - 1
        if threads:
            return f"preload: {name} leaves {threads} threads running, and a fork has only one; leave it out"
        left = {fd for fd in set(os.listdir("/proc/self/fd")) - before if os.path.exists(f"/proc/self/fd/{fd}")}
        if left:
            return f"preload: {name} leaves descriptors open, which all runs would share; leave it out"
        if shares_memory():
            return f"preload: {name} leaves memory that all runs would share and could write to; leave it out"
    if shares_memory():
        return "code that starts with the interpreter leaves memory that all runs would share and could write to"
    return ""


def shares_memory() -> bool:
    """Return whether any writable mapping would be shared with a fork (``sh`` in proc_pid_smaps(5))."""
    with open("/proc/self/smaps", "rb") as file:
        return any(b"sh" in line.split() for line in file if line.startswith(b"VmFlags:"))


def read(name: str) -> bytes:
    """Return the content of a file beside this one."""
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


def load_agent() -> dict[str, Any]:
    """Return the names that the agent's file defines."""
    names: dict[str, Any] = {"__name__": "agent", "__file__": __file__, "__builtins__": __builtins__}
    exec(files["run.py"], names)
    return names


def apply_launch(launch: dict[str, Any]) -> None:
    """Give this process the command line and the environment of its job."""
    if "resource" not in loaded:
        sys.modules.pop("resource", None)  # os.wait4 has imported it
    sys.orig_argv[:] = launch["argv"]
    sys.argv[:] = launch["argv"][2:]
    if launch["environment"] != environment:
        for name in environment.keys() - launch["environment"].keys():
            del os.environ[name]
        for name, value in launch["environment"].items():
            if environment.get(name) != value:
                os.environ[name] = value
        if "time" in sys.modules:
            sys.modules["time"].tzset()
    random = sys.modules.get("numpy.random")  # Python's own random module is seeded at every fork
    if random is not None:
        random.seed()
    process = sys.modules.get("multiprocessing.process")
    if process is not None:  # the key by which processes of multiprocessing know each other
        process.current_process().authkey = os.urandom(32)
    if os.fstat(0).st_mode & _TYPE == _REGULAR:
        replace_stdin()
    gc.enable()


def replace_stdin() -> None:
    """Make ``sys.stdin`` anew, as the interpreter does at its start: a pipe cannot seek, and the run's file can."""
    before = sys.__stdin__
    if before is None or sys.stdin is not before:
        return  # a module that was imported in advance has replaced it
    io = sys.modules["io"]
    raw = io.FileIO(0, "rb", closefd=False)
    raw.name = "<stdin>"
    text = io.TextIOWrapper(io.BufferedReader(raw), encoding=before.encoding, errors=before.errors)
    text.mode = "r"
    vars(sys).update(stdin=text, __stdin__=text)


def warm_up(name: str) -> None:
    """Run the sample job in the file ``name`` as the agent runs every job; then report a value and an error as well.

    The job and the reports produce no output.
    """
    own = sys.path[0]
    argv = [*sys.orig_argv[:2], __file__, "0", os.path.join(os.path.dirname(FOLDER), name)]
    apply_launch({"argv": argv, "environment": environment})
    agent["main"]()
    agent["dumps"]({"repr": "", "value": 0})
    try:
        raise RuntimeError
    except RuntimeError as error:
        agent["formatted"](error)
    flush()
    leave()
    sys.path[0] = own
    gc.disable()


def fill_caches(job: bytes) -> None:
    """Run ``job`` several times, so that it runs as it will run in every guest."""
    memory = os.memfd_create("sample")
    os.write(memory, job)
    for _ in range(_TIMES):
        warm_up(f"/proc/self/fd/{memory}")
    os.close(memory)
    gc.enable()


def leave() -> None:
    """Remove the job's modules, the last one first, and collect its reference cycles."""
    module = sys.modules.pop("__main__", None)
    main = _weakref.ref(module) if module is not None else None
    del module
    late = []
    for name in reversed(sys.modules):
        if name in loaded:
            break  # older modules come first in the dictionary
        late.append(name)
    for name in late:
        del sys.modules[name]
    gc.collect()  # only the job's objects: the zygote's are frozen
    left = main() if main is not None else None
    if left is not None:
        clear(vars(left))


def finish(status: int) -> None:
    """End as the interpreter does (Py_FinalizeEx), as far as the job can notice.

    Objects of the zygote are left alone, because to free them would copy their pages. Then the completion marker goes
    to the channel with the status, so that nobody has to wait while the kernel frees the rest.
    """
    if number:
        trace.note(number, trace.ENDED)
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
        if not flush():
            status = _FLUSH_FAILED
            sys.stdout = None
        leave()
        flush()
    finally:
        if os.getpid() == first:
            if number:
                trace.note(number, trace.COMPLETED)
                agent["write_line"](trace.encode_notes(trace.take()))
            if agent["mark_completion"](status):
                zygote.await_kill()
        os._exit(status)


def flush() -> bool:
    """Flush the standard streams and those of the C library; return whether that was possible."""
    well = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException as error:
            well = False
            if name == "stdout":
                sys.stderr.write(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}\n")
    zygote.flush()
    return well


def clear(names: dict[str, Any]) -> None:
    """Set all names of a module to ``None``, private names first (the order of _PyModule_ClearDict)."""
    for private in (True, False):
        for name in [name for name in names if (name[:1] == "_" and name[:2] != "__") == private]:
            if name != "__builtins__":
                names[name] = None


os.environ.pop("LD_BIND_NOW", None)  # only needed at the start
environment = dict(os.environ)
int("0")  # makes the interpreter build its conversion tables now
agent = load_agent()
renumber()
zygote, trace, warm_up_job = prepare()
loaded = set(sys.modules)
for name in ("_weakref", "atexit", "gc"):  # built in; a fresh interpreter has them, but not in sys.modules
    globals()[name] = __import__(name)
agent["accelerator"]()
for name in set(sys.modules) - loaded:
    del sys.modules[name]
prints_nothing = isinstance(print, type(len)) and sys.stdout is sys.__stdout__  # unless a module has replaced them
if prints_nothing:
    fill_caches(warm_up_job)
launch = zygote.wait((warm_up_job, warm_up) if prints_nothing else None)
apply_launch(launch)
first = os.getpid()
ended = 0
number = launch["trace"]
if number:  # the condition saves untraced runs from copying one more page of the interpreter
    trace.note(number, trace.BEGUN)
