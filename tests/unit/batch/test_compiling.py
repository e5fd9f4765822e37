import pytest

from stockade.batch import compiling, policies
from stockade.batch.compiling import COMPILE_LIMITS, Compiled, Compiler
from stockade.policy.model import Policy

MIB = 1 << 20


def start(language, **limits):
    compiled = Compiled(compiling._COMPILERS[language], b"x")
    return compiling.running(compiled, "in", {"a": b"b"}, Policy(limits=limits).limits)


@pytest.mark.parametrize("language", compiling._COMPILERS)
def test_what_was_compiled_lies_beside_the_programs_files_and_may_be_executed(language):
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
def test_collectors_are_told_of_the_limit_on_memory(memory, heap, stack):
    assert start("go", memory=memory).environment["GOMEMLIMIT"] == str(heap)
    assert {f"-Xmx{heap}", f"-Xss{stack}"} < set(start("java", memory=memory).argv)


def test_without_a_limit_they_are_told_of_none():
    assert "GOMEMLIMIT" not in start("go", memory="unlimited").environment
    assert not [word for word in start("java", memory="unlimited").argv if word.startswith(("-Xmx", "-Xss"))]


def test_a_runtime_has_its_threads_and_its_paths_beside_the_policys():
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
def test_a_language_goes_by_several_names(name, tool, monkeypatch):
    monkeypatch.setattr(compiling.shutil, "which", lambda tool, path: f"/usr/bin/{tool}")
    assert compiling.find(name).tool == tool
    assert compiling.find("python") is None
