"""Runs in an interpreter that is kept warm: imports what was asked for, then waits to be copied. Each copy runs one
job, by the same agent as a fresh interpreter, and ends. ``python_start`` runs this, compiled, as its own code.
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

_FLUSH_FAILED = 120  # what an interpreter ends with that could not flush its streams
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
"""What programs do with modules of which many are going to use some: a page that this has touched is there already."""
_TIMES = 3
"""An interpreter remembers where it has found names: no copy should have to look. Not so often that it adapts the
agent's code (PEP 659, from the eighth time on), by which calls come to count otherwise where they nest too deep."""


def renumber() -> None:
    """Go on as a process whose number no copy will have: by that alone some libraries tell that they were copied, and
    take fresh random numbers (OpenSSL 3, SQLite, ``tempfile``). The first one stays, as who is waited for."""
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)


def prepare() -> tuple[Any, Any, bytes]:
    """Import the modules asked for, and what makes copies and what notes steps, which leave no trace among the modules.
    Return these two, and a job that does what many are going to do."""
    names = read("preload").decode().split()
    exercises = {name: _EXERCISES[name] for name in names if name in _EXERCISES}
    trouble = preload(names, exercises)
    kept = set(sys.modules)
    enter_package()
    sys.meta_path.insert(0, importer)
    from stockade.core import trace as _trace
    from stockade.warden.warm import zygote

    sys.meta_path.remove(importer)  # wherever it is by now
    for name in set(sys.modules) - kept:
        del sys.modules[name]
    if trouble:
        zygote.refuse(trouble)
    sys.stdout.flush()  # or every copy would say again what an import has printed
    sys.stderr.flush()
    zygote.flush()
    return zygote, _trace, b"".join(exercises.values()) + _WARM_UP


def preload(names: list[str], exercises: dict[str, bytes]) -> str:
    """Import what was asked for, and use it; return why it cannot be kept warm, if so. What cannot be exercised is
    taken out of ``exercises``."""
    before = set(os.listdir("/proc/self/fd"))
    for name in names:
        try:
            __import__(name)
        except BaseException as error:
            return f"preload: {name} cannot be imported: {type(error).__name__}: {error}"
        try:
            exec(exercises.get(name, b""), {})  # what it puts off until it is used is done here, once
        except Exception:
            del exercises[name]  # of a kind that we do not know; only copies are slower then
        threads = len(os.listdir("/proc/self/task")) - 1
        if threads:
            return f"preload: {name} leaves {threads} threads running, which no copy would have; leave it out"
        left = {fd for fd in set(os.listdir("/proc/self/fd")) - before if os.path.exists(f"/proc/self/fd/{fd}")}
        if left:
            return f"preload: {name} leaves descriptors open, which all copies would share; leave it out"
        if shares_memory():
            return f"preload: {name} leaves memory that all copies would share and could write to; leave it out"
    if shares_memory():
        return "what starts with the interpreter leaves memory that all copies would share and could write to"
    return ""


def shares_memory() -> bool:
    """Return whether memory is mapped that a copy shares and can write to (``sh`` in proc_pid_smaps(5))."""
    with open("/proc/self/smaps", "rb") as file:
        return any(b"sh" in line.split() for line in file if line.startswith(b"VmFlags:"))


def read(name: str) -> bytes:
    """Return what a file beside this one holds."""
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


def load_agent() -> dict[str, Any]:
    """Return what the agent's file defines."""
    names: dict[str, Any] = {"__name__": "agent", "__file__": __file__, "__builtins__": __builtins__}
    exec(files["run.py"], names)
    return names


def apply_launch(launch: dict[str, Any]) -> None:
    """Give this copy the command line and the environment of its job."""
    if "resource" not in loaded:
        sys.modules.pop("resource", None)  # waiting for children has imported it
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
    random = sys.modules.get("numpy.random")  # the standard library's is seeded anew at every fork
    if random is not None:
        random.seed()
    process = sys.modules.get("multiprocessing.process")
    if process is not None:  # the key by which its processes know each other
        process.current_process().authkey = os.urandom(32)
    gc.enable()


def warm_up(name: str) -> None:
    """Do what every job does, with the one in the job's file ``name`` for all, and what only some do as well: they have
    a value, or fail. Nothing of it is seen."""
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


def practise(job: bytes) -> None:
    """Rehearse ``job`` until it goes as it is going to go in every copy."""
    memory = os.memfd_create("rehearsal")
    os.write(memory, job)
    for _ in range(_TIMES):
        warm_up(f"/proc/self/fd/{memory}")
    os.close(memory)
    gc.enable()


def leave() -> None:
    """Let go of the job's modules, the last one first, and of what is only held by itself."""
    module = sys.modules.pop("__main__", None)
    main = _weakref.ref(module) if module is not None else None
    del module
    late = []
    for name in reversed(sys.modules):
        if name in loaded:
            break  # what was there before lies before all that the job has imported
        late.append(name)
    for name in late:
        del sys.modules[name]
    gc.collect()  # of all that is the job's: what the copies share was frozen, and is left alone
    left = main() if main is not None else None
    if left is not None:
        clear(vars(left))


def finish(status: int) -> None:
    """Do what an interpreter does at its end (Py_FinalizeEx), as far as the job can tell, and end. What the copies
    share is left alone: to take it down would copy all of it.

    Then the status is announced, on the channel, so that nobody has to wait for the kernel to take down the rest.
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
                agent["say"](trace.encode_notes(trace.take()))
            if agent["mark_completion"](status):
                zygote.await_kill()
        os._exit(status)


def flush() -> bool:
    """Flush the standard streams, the C library's as well; return whether that was possible."""
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
    """Let go of what a module holds, private names first (the order of _PyModule_ClearDict)."""
    for private in (True, False):
        for name in [name for name in names if (name[:1] == "_" and name[:2] != "__") == private]:
            if name != "__builtins__":
                names[name] = None


os.environ.pop("LD_BIND_NOW", None)  # it has had its effect
environment = dict(os.environ)
int("0")  # tables are worked out when they are first needed
agent = load_agent()
renumber()
zygote, trace, warm_up_job = prepare()
loaded = set(sys.modules)
for name in ("_weakref", "atexit", "gc"):  # built in; a fresh interpreter has them ready, and not yet imported
    globals()[name] = __import__(name)
agent["accelerator"]()
for name in set(sys.modules) - loaded:
    del sys.modules[name]
unseen = isinstance(print, type(len)) and sys.stdout is sys.__stdout__  # what a module has put there may say something
if unseen:
    practise(warm_up_job)
launch = zygote.wait((warm_up_job, warm_up) if unseen else None)
apply_launch(launch)
first = os.getpid()
ended = 0
number = launch["trace"]
if number:  # or a page more of the interpreter would be touched, and copied
    trace.note(number, trace.BEGUN)
