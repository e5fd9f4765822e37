import pytest

from stockade.batch import compiling, policies
from stockade.batch.compiling import COMPILE_LIMITS, Compiled, Compiler
from stockade.policy.model import Policy

MIB = 1 << 20


def start(language, **limits):
    compiled = Compiled(compiling._COMPILERS[language], b"x")
    return compiling.program_job(compiled, "in", {"a": b"b"}, Policy(limits=limits).limits)


@pytest.mark.parametrize("language", compiling._COMPILERS)
def test_compiled_program_is_executable_among_files(language):
    job = start(language)
    assert job.files == {"a": b"b", "program": b"x"} and job.stdin == b"in"
    assert (job.mode_of("program"), job.mode_of("a")) == (0o755, 0o644)
    assert job.argv[0] in ("./program", "java")


@pytest.mark.parametrize(
    ("memory", "heap", "stack"),
    [
        ("32MiB", 8 * MIB, MIB),
        ("256MiB", 176 * MIB, 2 * MIB),
        ("1GiB", 768 * MIB, 8 * MIB),
        ("8GiB", 6144 * MIB, 8 * MIB),  # the limit on the stack
    ],
)
def test_program_job_sets_heap_from_memory_limit(memory, heap, stack):
    assert start("go", memory=memory).environment["GOMEMLIMIT"] == str(heap)
    assert {f"-Xmx{heap}", f"-Xss{stack}"} < set(start("java", memory=memory).argv)


def test_program_job_without_limit_sets_no_heap():
    assert "GOMEMLIMIT" not in start("go", memory="unlimited").environment
    assert not [word for word in start("java", memory="unlimited").argv if word.startswith(("-Xmx", "-Xss"))]


def test_policies_add_threads_and_paths_of_runtime():
    base = Policy(limits={"processes": 2, "memory": "64MiB"}, filesystem={"read": ["/srv"]})
    compiler = Compiler("Main.x", "xc", "xc Main.x", threads=5, reads=lambda: ("/etc/x",))
    own, making = policies.policy_of_compiled(base, compiler), policies.policy_of_compiler(base, compiler)
    assert own.limits == base.limits.model_copy(update={"processes": 7})
    assert own.filesystem.read == making.filesystem.read == ("/srv", "/etc/x")
    assert making.limits.processes == COMPILE_LIMITS["processes"] and making.on_output == "kill"
    free = Policy(limits={"processes": "unlimited"})
    assert policies.policy_of_compiled(free, compiler).limits.processes == "unlimited"


@pytest.mark.parametrize(
    ("name", "tool"), [("go", "go"), ("Golang", "go"), ("JAVA", "javac"), ("cpp", "g++"), ("rs", "rustc"), ("c", "gcc")]
)
def test_find_compiler_by_any_alias(name, tool, monkeypatch):
    monkeypatch.setattr(compiling.shutil, "which", lambda tool, path: f"/usr/bin/{tool}")
    assert compiling.find(name).tool == tool
    assert compiling.find("python") is None
