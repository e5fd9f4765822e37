"""Languages with a compiler: compile a program once in a sandbox, then run the result for each case.

The output of the compiler's sandbox is as hostile as its input. It goes only into another sandbox.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stockade.api.job_arguments import job_from_command
from stockade.batch import toolchains
from stockade.core.errors import JobError
from stockade.policy.guarantees import Guarantee
from stockade.policy.parts import Limits
from stockade.runs.job import Job
from stockade.runs.result import Result

COMPILE_LIMITS: Mapping[str, Any] = {
    "cpu_time": 30, "wall_time": 60, "memory": 1 << 30, "processes": 32, "disk": 256 << 20, "file_size": 64 << 20,
    "output": 32 << 20,
}  # fmt: skip
"""Limits of the compiler; ``output`` bounds the size of the program that it makes."""
_PROGRAM = "program"
_STACK = ".stockade_stack.c"
_TOOL = "%TOOL%"  # stands for the compiler in its command
_PATH = "/usr/local/bin:/usr/bin:/bin"  # as in a sandbox
_PROCESSORS = 2  # for the runtime, so that it starts equally many threads on every machine
_JVM = ("-XX:+UseSerialGC", "-XX:-UsePerfData", f"-XX:ActiveProcessorCount={_PROCESSORS}")
_BRIEF = " ".join(f"-J{option}" for option in (*_JVM, "-XX:TieredStopAtLevel=1"))
_BESIDE_THE_HEAP = 48 << 20  # bytes that a runtime needs for itself: compiled code, classes, stacks


Start = tuple[list[str], dict[str, str]]
"""The command that starts the program, and its environment variables."""


def _native(_: Limits) -> Start:
    return [f"./{_PROGRAM}"], {}


def _go(limits: Limits) -> Start:
    heap = _heap(limits)
    bound = {"GOMEMLIMIT": str(heap)} if heap else {}
    return [f"./{_PROGRAM}"], {"GOMAXPROCS": str(_PROCESSORS), **bound}


def _java(limits: Limits) -> Start:
    heap = _heap(limits)
    bounds = (f"-Xmx{heap}", f"-Xss{_stack_in_java(limits)}") if heap else ()
    return ["java", *_JVM, "-Xms8m", *bounds, "-jar", _PROGRAM], {}


def _stack_in_java(limits: Limits) -> int:
    """Return the bytes of each of about ten stacks. Where RLIMIT_DATA bounds memory, it counts whole stacks."""
    memory, stack = limits.figure(Guarantee.MEMORY), limits.figure(Guarantee.STACK)
    share = max(1 << 20, int(memory or 0) // 128)
    return share if stack is None else min(share, int(stack))


def _heap(limits: Limits) -> int | None:
    """Return the largest size of the heap. Without a bound, a garbage collector uses the whole machine's memory."""
    memory = limits.figure(Guarantee.MEMORY)
    return None if memory is None else int(max(memory / 4, min(memory * 3 / 4, memory * 7 / 8 - _BESIDE_THE_HEAP)))


@cache
def _of_the_jvm(home: Path | None = None) -> tuple[str, ...]:
    """Return the paths that a JVM reads outside of its ``home`` and of /usr: on Debian, its settings in /etc."""
    found = shutil.which("javac", path=_PATH)
    if home is None and found is None:
        return ()
    home = home or Path(os.path.realpath(str(found))).parents[1]
    read = [home / "lib/jvm.cfg", home / "conf/security/java.security"]
    own, security = (Path(os.path.realpath(path)) for path in read)
    return tuple(str(path) for path in (own, security.parent) if path.exists() and not path.is_relative_to(home))


@dataclass(frozen=True)
class Compiler:
    """How one language is compiled, and how the compiled program is started."""

    source: str
    """The name of the source file; its suffix tells the compiler the language."""
    tool: str
    command: str
    """The shell command, with ``%TOOL%`` for the tool; it writes the program to the file ``program``."""
    start: Callable[[Limits], Start] = _native
    """Returns the command that starts the program under the limits of a run."""
    threads: int = 0
    """Threads of the language's runtime, in addition to what ``limits.processes`` leaves to the program."""
    reads: Callable[[], tuple[str, ...]] = tuple
    """Returns paths that the sandbox must show in addition to the usual ones."""
    found: toolchains.Toolchain | None = None
    """The installation, if it is outside of the system's folders."""
    watched: bool = False
    """Whether the program is linked with ``stack.c``, which reports that the stack is used up."""


@dataclass(frozen=True)
class Compiled:
    """A compiled program."""

    compiler: Compiler
    program: bytes


_COMPILERS = {
    "c": Compiler("main.c", "gcc", f"{_TOOL} -O2 -o {_PROGRAM} main.c {_STACK} -lm", watched=True),
    "c++": Compiler("main.cpp", "g++", f"{_TOOL} -O2 -o {_PROGRAM} main.cpp {_STACK}", watched=True),
    "rust": Compiler("main.rs", "rustc", f"{_TOOL} -O -o {_PROGRAM} main.rs"),
    "go": Compiler(
        "main.go",
        "go",
        f'env GOCACHE="$TMPDIR/go" GOPATH="$TMPDIR/gopath" GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0'
        f" GOMAXPROCS={_PROCESSORS} {_TOOL} build -o {_PROGRAM} main.go",
        _go,
        threads=8,
    ),
    "java": Compiler(
        "Main.java",
        "javac",
        f"{_TOOL} {_BRIEF} -encoding UTF-8 -d classes Main.java && jar {_BRIEF} cfe {_PROGRAM} Main -C classes .",
        _java,
        threads=16,
        reads=_of_the_jvm,
    ),
}
_ALIASES = {"cpp": "c++", "cxx": "c++", "cc": "c++", "rs": "rust", "golang": "go"}


def known(language: str) -> Compiler | None:
    """Return the compiler of a language, installed or not; ``None`` if the language needs none."""
    return _COMPILERS.get(_canonical(language))


def find(language: str, named: Mapping[str, str] = MappingProxyType({})) -> Compiler | None:
    """Return the compiler of a language; ``None`` if the language needs none.

    ``named`` maps languages to compilers, or to the folders of their installations, that replace the system's.
    Raises ``JobError`` if the compiler is not installed.
    """
    compiler = known(language)
    path = {_canonical(name): path for name, path in named.items()}.get(_canonical(language))
    if compiler is None:
        return None
    if path is not None:
        return _in_installation(compiler, toolchains.located(compiler.tool, path))
    if shutil.which(compiler.tool, path=_PATH) is None:
        raise JobError(
            f"language = {language!r}: {compiler.tool} is not installed in {_PATH}; "
            f"install it, or name another one: --compiler {_canonical(language)}=PATH"
        )
    return compiler


def require(named: Mapping[str, str]) -> None:
    """Raise ``JobError`` if ``named`` has a language without a compiler, or a compiler that does not exist."""
    for language in named:
        if find(language, named) is None:
            raise JobError(f"compiler {language!r}: not a compiled language; those are {', '.join(_COMPILERS)}")


def _canonical(language: str) -> str:
    return _ALIASES.get(language.lower(), language.lower())


def _in_installation(compiler: Compiler, found: toolchains.Toolchain) -> Compiler:
    installed = found.folder
    shown: tuple[str, ...] = () if installed.is_relative_to("/usr") else (str(installed),)
    if compiler.tool == "javac":
        shown += _of_the_jvm(installed)
    return replace(compiler, found=found, reads=lambda: shown)


def compile_job(compiler: Compiler, source: str, files: Mapping[str, bytes]) -> Job:
    """Return the job that compiles a program; its standard output is the compiled program."""
    found = compiler.found
    path = f"PATH={shlex.quote(str(found.folder / 'bin'))}:$PATH; export PATH; " if found else ""
    made = compiler.command.replace(_TOOL, shlex.quote(str(found.program)) if found else compiler.tool, 1)
    more = {_STACK: _stack()} if compiler.watched else {}
    command = f"{path}{{ {made}; }} >&2 && cat {_PROGRAM}"
    return job_from_command(["sh", "-c", command], files={**files, **more, compiler.source: source})


@cache
def _stack() -> bytes:
    return (resources.files(__package__) / "stack.c").read_bytes()


def program_of(compiler: Compiler, result: Result) -> Compiled | None:
    """Return the program that the compiler's run made; ``None`` if it failed or its output was cut."""
    whole = result.ok and not result.stdout_truncated
    return Compiled(compiler, result.stdout_bytes) if whole else None


def program_job(compiled: Compiled, stdin: str, files: Mapping[str, bytes], limits: Limits) -> Job:
    """Return the job that runs a compiled program under ``limits``."""
    (first, *arguments), variables = compiled.compiler.start(limits)
    found = compiled.compiler.found
    command = [str(found.folder / "bin" / first) if found and "/" not in first else first, *arguments]
    with_program = {**files, _PROGRAM: compiled.program}
    job = job_from_command(command, stdin=stdin, files=with_program, environment=variables)
    return replace(job, executables=frozenset({_PROGRAM}))
