"""Compiled languages in a batch on the real kernel: one bounded compilation, and one bounded run for each case."""

from __future__ import annotations

import pytest

import stockade
from stockade.batch import compiling, judge
from stockade.batch.reading import program_from_record

pytestmark = [pytest.mark.needs("native"), pytest.mark.timeout(300), pytest.mark.timing]

LIMITS = {"memory": "64MiB", "wall_time": 30, "cpu_time": 10, "processes": 5, "output": "64KiB"}
POLICY = stockade.Policy(limits=LIMITS, on_output="kill")

SQUARE = {
    "c": "#include <stdio.h>\nint main(void) { int n; scanf(\"%d\", &n); printf(\"%d\\n\", n * n); }",
    "c++": "#include <iostream>\nint main() { int n; std::cin >> n; std::cout << n * n << '\\n'; }",
    "rust": "fn main() { let mut s = String::new(); std::io::stdin().read_line(&mut s).unwrap();\n"
            " let n: i32 = s.trim().parse().unwrap(); println!(\"{}\", n * n); }",
    "go": "package main\nimport \"fmt\"\nfunc main() { var n int; fmt.Scan(&n); fmt.Println(n * n) }",
    "java": "public class Main { public static void main(String[] a) {\n"
            " int n = new java.util.Scanner(System.in).nextInt(); System.out.println(n * n); } }",
}  # fmt: skip
TOOLS = {"c": "gcc", "c++": "gcc", "rust": "rustc", "go": "go", "java": "javac"}
COMPILED = [pytest.param(name, marks=pytest.mark.needs(TOOLS[name]), id=name) for name in SQUARE]
BOMB = "#include <string>\ntemplate<int N> struct A { using t = A<N + 1>; typename t::t x; }; A<0> a; int main() {}"


@pytest.mark.parametrize("language", COMPILED)
def test_program_compiled_once_runs_each_case(language, monkeypatch):
    compiled = []
    once = judge.compiling.program_of
    monkeypatch.setattr(judge.compiling, "program_of", lambda *made: compiled.append(1) or once(*made))
    cases = [{"stdin": str(n), "expected": str(n * n)} for n in range(3)]
    (found,) = stockade.evaluate([stockade_program(language, SQUARE[language], cases)], policy=POLICY)
    assert found.verdict == "passed" and len(found.cases) == 3, found
    assert len(compiled) == 1


def stockade_program(language, source, cases):
    return program_from_record({"id": "x", "language": language, "source": source, "cases": cases})


THREADS_IN_JAVA = """public class Main { public static void main(String[] a) {
  for (int n = 0; n < 1000; n++) { Thread t = new Thread(() -> { try { Thread.sleep(9999); } catch (Exception e) {} });
  t.setDaemon(true); t.start(); } } }"""
HOARD_IN_JAVA = (
    "public class Main { public static void main(String[] a) { var kept = new java.util.ArrayList<int[]>(); \
while (true) kept.add(new int[1 << 18]); } }"
)
HOARD_IN_GO = "package main\nfunc main() { var kept [][]byte; for { b := make([]byte, 1<<20)\n\
for i := range b { b[i] = 1 }; kept = append(kept, b) } }"
BADLY = [
    ("c", "int main(void) { return x; }", "compile_error", "undeclared"),
    ("c", "", "compile_error", "main"),
    ("c", "#include \"/etc/shadow\"\nint main(void) { return 0; }", "compile_error", "shadow"),
    ("c", "char big[3u << 30] = {1}; int main(void) { return 0; }", {"compile_error", "crashed", "failed", "limit_exceeded"}, ""),
    ("c", "int main(void) { *(volatile int *)0 = 1; }", {"crashed", "failed"}, ""),
    ("c", "int main(void) { for (;;); }", "limit_exceeded", ""),
    ("c++", BOMB, {"compile_error", "limit_exceeded"}, ""),
    ("rust", "fn main() { x }", "compile_error", "cannot find value"),
    ("rust", "static S: &str = include_str!(\"/etc/shadow\"); fn main() {}", "compile_error", "shadow"),
    ("rust", "fn main() { loop {} }", "limit_exceeded", ""),
    ("go", "package main\nfunc main() { x := 1 }", "compile_error", "x declared"),
    ("go", "package main\nimport \"github.com/a/b\"\nfunc main() { b.C() }", "compile_error", "github.com/a/b"),
    ("go", "package main\nfunc main() { for {} }", "limit_exceeded", ""),
    ("go", HOARD_IN_GO, {"limit_exceeded", "failed"}, ""),
    ("java", "public class Main { int x = y; }", "compile_error", "cannot find symbol"),
    ("java", "public class Other { }", "compile_error", "Other.java"),
    ("java", "public class Main { public static void main(String[] a) { for (;;); } }", "limit_exceeded", ""),
    ("java", HOARD_IN_JAVA, {"limit_exceeded", "failed"}, ""),
    ("java", THREADS_IN_JAVA, "failed", "unable to create native thread"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "source", "word", "told"),
    [pytest.param(*each, marks=pytest.mark.needs(TOOLS[each[0]])) for each in BADLY],
)
def test_compiler_bounded_and_its_messages_kept(language, source, word, told):
    program = {"id": "x", "language": language, "source": source, "limits": {"cpu_time": 1}}
    (found,) = stockade.evaluate([program], policy=POLICY)
    assert found.verdict in ({word} if isinstance(word, str) else word), found
    assert told in found.cases[0].stderr


COLLECTED = {
    "go": """package main
import "fmt"
func main() { n := 0; kept := make([][]byte, 105)
 for i := 0; i < 600; i++ { b := make([]byte, 1<<20); for j := range b { b[j] = 1 }; kept[i%105] = b; n++ }
 fmt.Println(n*len(kept[9])>>20) }""",
    "java": """public class Main { public static void main(String[] a) {
 int n = 0; byte[][] kept = new byte[70][];
 for (int i = 0; i < 600; i++) { kept[i % 70] = new byte[1 << 20]; n++; }
 System.out.println(n * kept[9].length >> 20); } }""",
}


@pytest.mark.parametrize("language", [pytest.param(name, marks=pytest.mark.needs(TOOLS[name])) for name in COLLECTED])
def test_garbage_collector_obeys_memory_limit(language):
    """The program allocates 600 MiB in all under 200: a collector that looks at the machine's memory would take more."""
    program = {"id": "x", "language": language, "source": COLLECTED[language], "expected": "600"}
    (found,) = stockade.evaluate([program | {"limits": {"memory": "200MiB"}}], policy=POLICY)
    assert found.verdict == "passed", found


@pytest.mark.parametrize("language", COMPILED)
@pytest.mark.parametrize(
    "backend",
    ["process", pytest.param("landlock", marks=pytest.mark.needs("landlock")),
     pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap"))],
)  # fmt: skip
def test_compiled_program_runs_under_other_backends(backend, language):
    accept = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor", "memory": "supervisor"}
    policy = stockade.Policy(limits={"memory": "128MiB"}, accept=accept)
    program = {"id": "x", "language": language, "source": SQUARE[language], "stdin": "3", "expected": "9"}
    (found,) = stockade.evaluate([program], policy=policy, backend=backend, jobs=1)
    assert found.verdict == "passed", found


@pytest.mark.parametrize("language", COMPILED)
def test_processes_one_runs_compiled_program(language):
    """Neither a shell in front of the program nor the threads of its runtime count."""
    limits = {"processes": 1}
    program = {"id": "x", "language": language, "source": SQUARE[language], "stdin": "3", "expected": "9"}
    (found,) = stockade.evaluate([program | {"limits": limits}], policy=POLICY)
    assert found.verdict == "passed", found


def test_missing_compiler_is_reported():
    bad: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "_PATH", "/nowhere")
        found = stockade.evaluate(
            [{"id": "x", "language": "c", "source": ""}], on_bad=lambda _, error: bad.append(str(error))
        )
        assert list(found) == []
    assert bad == [
        "language = 'c': gcc is not installed in /nowhere; install it, or name another one: --compiler c=PATH"
    ]


DEEP = "#include <stdio.h>\nint f(int n) { volatile int a[100]; a[0] = n; return n ? f(n - 1) + a[0] : 0; }\n"
REASONS = [
    ("c", DEEP + "int main(void) { return f(10000000); }", "crashed", "the stack of 8 MiB is used up"),
    ("c++", DEEP + "int main() { volatile char a[40000000]; a[0] = 1; return f(1); }", "crashed", "of 8 MiB is used up"),
    ("c++", "#include <stdexcept>\nint main() { throw std::runtime_error(\"boom\"); }", "crashed", "boom"),
    ("c", "int main(void) { return x; }", "compile_error", "gcc failed: main.c:1:25: error: "),
    ("go", "package main\nfunc main() { var a []int; _ = a[len(a)] }", "failed", "panic: runtime error: index out of"),
    ("java", "public class Main { public static void main(String[] a) { Integer.parseInt(\"x1\"); } }", "failed",
     "Exception in thread \"main\" java.lang.NumberFormatException: For input string: \"x1\""),
    ("java", "public class Other { }", "compile_error", "javac failed: Main.java:1: error: class Other is"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "source", "word", "words"),
    [pytest.param(*each, marks=pytest.mark.needs(TOOLS[each[0]])) for each in REASONS],
)
def test_reason_holds_last_line_of_program(language, source, word, words):
    (found,) = stockade.evaluate([{"id": "x", "language": language, "source": source}])
    assert found.verdict == word and words in found.reason, found


@pytest.mark.needs("gcc")
def test_other_crash_not_reported_as_stack_overflow():
    source = "int main(void) { *(volatile int *)0 = 1; }"
    (found,) = stockade.evaluate([{"id": "x", "language": "c", "source": source}])
    assert (found.verdict, found.reason) == ("crashed", "crashed by SIGSEGV")


def test_reason_of_script_is_its_last_line():
    source = "echo one >&2; echo two >&2; exit 3"
    (found,) = stockade.evaluate([{"id": "x", "language": "shell", "source": source}])
    assert found.reason == "failed with exit status 3: two"


@pytest.mark.needs("gcc")
def test_named_compiler_elsewhere_is_shown(tmp_path):
    """The compiler is in a folder of its own, and works only if the sandbox shows that folder."""
    for path in (tmp_path, *list(tmp_path.parents)[:1]):
        path.chmod(0o755)
    installed = tmp_path / "tools"
    (installed / "bin").mkdir(parents=True)
    (installed / "lib").mkdir()
    (installed / "lib" / "words").write_text("-DANSWER=42")
    tool = installed / "bin" / "gcc"
    tool.write_text(f'#!/bin/sh\nexec /usr/bin/gcc "$(cat {installed}/lib/words)" "$@"\n')
    tool.chmod(0o755)
    source = '#include <stdio.h>\nint main(void) { printf("%d", ANSWER); }'
    program = {"id": "x", "language": "c", "source": source, "expected": "42"}
    for named in (tool, installed):
        (found,) = stockade.evaluate([program], compilers={"c": str(named)})
        assert found.passed, found
    (without,) = stockade.evaluate([program])
    assert without.verdict == "compile_error"


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"c": "/nowhere/gcc"}, "does not exist"),
        ({"ada": "/usr/bin/gcc"}, "not a compiled language; those are c, c"),
        ({"rust": "/bin/false"}, "does not say where it is installed"),
    ],
)
def test_unusable_compiler_is_refused(named, words):
    with pytest.raises(stockade.JobError, match=words):
        stockade.evaluate([], compilers=named)
