"""Wrong arguments fail at once: the error names the argument, the value and what to write, and nothing starts."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import Any

import pytest

import stockade
from stockade import JobError, Network, PolicyError, Runner, Sandbox
from stockade.api.options import known_options
from stockade.api.sessions.files import Files
from stockade.embedded import Runtime
from tests.unit.facts import NOTHING


def test_network_with_a_mistake_raises_an_error_of_the_policy() -> None:
    for fields, words in (
        (
            {"allow": ["example.com"]},
            "network.allow.0 = 'example.com': expected HOST:PORT; did you mean 'example.com:443'",
        ),
        ({"allow": ["https://example.com/a"]}, "not a URL; did you mean 'example.com:443'"),
        ({"allow": ["http://example.com:8080/a"]}, "not a URL; did you mean 'example.com:8080'"),
        ({"allow": ["localhost:80"]}, "localhost is the sandbox itself; for a service of this host, list 127.0.0.1:80"),
        ({"allow": "example.com:443"}, "network.allow = 'example.com:443': expected a list"),
        ({"conections": 3}, "network.conections = 3: there is no such field; did you mean 'connections'"),
    ):
        with pytest.raises(PolicyError) as error:
            Network(**fields)
        assert words in str(error.value)
        with pytest.raises(PolicyError) as nested:
            stockade.Policy(network=fields)
        assert words in str(nested.value)


def test_network_that_is_no_network_names_all_forms() -> None:
    for value in (True, "internet", ["example.com:443"]):
        with pytest.raises(PolicyError, match=r"network = .*: expected 'none', 'host', or a stockade.Network such as"):
            stockade.Policy(network=value)  # type: ignore[arg-type]


def test_values_without_a_name_are_refused_with_an_example() -> None:
    with pytest.raises(TypeError, match=r"Policy takes its fields by name, not 'strict'; a profile is Policy.profile"):
        stockade.Policy("strict")  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"Network takes its fields by name, .*; write Network\(allow="):
        Network(["example.com:443"])  # type: ignore[misc]
    with pytest.raises(PolicyError, match=r"environment.A = '1': .* environment = \{'set': \{'A'"):
        stockade.Policy(environment={"A": "1"})


@pytest.mark.parametrize("evaluate", [stockade.evaluate, stockade.aevaluate])
def test_evaluate_refuses_other_values_before_iterating(evaluate: Any) -> None:
    for value, words in (
        ("programs.jsonl", "'programs.jsonl' is a text, and evaluate reads no files"),
        ({"id": 1, "source": "1"}, "this is one program; pass a list"),
        (5, "expected an iterable of programs, not 5"),
    ):
        with pytest.raises(JobError, match=words):
            evaluate(value)
    with pytest.raises(TypeError, match="'polcy'; did you mean 'policy'"):
        evaluate([], polcy="strict")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"files": {"a.txt": 5}}, r"files\['a.txt'\] must be text or bytes, not int"),
        ({"environment": {"A": 1}}, r"environment\['A'\] = 1: must be text"),
        ({"requirements": 5}, r"requirements = 5: expected a list such as \['pandas'\]"),
        ({"arguments": 5}, "arguments: expected a list of texts, .* not 5"),
        ({"preload": 5}, "preload must be a list of module names, .* not 5"),
        ({"warm": "yes"}, "warm = 'yes': expected True, False or None"),
    ],
)
def test_run_names_the_argument_and_its_value(options: dict[str, Any], words: str) -> None:
    with pytest.raises(JobError, match=words):
        stockade.run("1", **options)


def test_sandbox_is_made_by_create_alone() -> None:
    for values in ((), ("strict",)):
        with pytest.raises(TypeError, match=r"Sandbox.create\(...\) starts a sandbox"):
            Sandbox(*values)  # type: ignore[arg-type, call-arg]
    for name, words in (
        ("files", "sandbox.files.write"),
        ("timout", "did you mean 'timeout'"),
        ("require", "did you mean 'requirements'"),
    ):
        with pytest.raises(TypeError, match=words):
            Sandbox.create(**{name: 1})  # type: ignore[arg-type]
    with pytest.raises(stockade.BackendUnavailable, match=r"'landlock': it ends with each command, .* use native"):
        Sandbox.create(backend="landlock")
    with pytest.raises(stockade.BackendUnavailable, match="'nativ'; did you mean 'native'"):
        Sandbox.create(backend="nativ")


def test_sandbox_on_a_host_without_namespaces_says_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stockade.client.warden_process.host_facts", lambda: NOTHING)
    with pytest.raises(stockade.BackendUnavailable) as error:
        Sandbox.create()
    first, works, reason = str(error.value).splitlines()
    assert first == "no sandbox can live here"
    assert works.startswith("works here: runs by Runner(...")
    assert reason.startswith("native: ") and "Operation not permitted" in reason
    with pytest.raises(stockade.BackendUnavailable, match=r"^backend 'native': "):
        Sandbox.create(backend="native")


def test_unknown_keyword_of_a_method_suggests_a_name() -> None:
    @known_options
    def call(self: object, *, cwd: str = "", timeout: float = 0) -> tuple[str, float]:
        return cwd, timeout

    assert call(None, cwd="/", timeout=2) == ("/", 2)
    for name, words in (
        ("workdir", "no option 'workdir': did you mean 'cwd'"),
        ("memory", r"memory holds for the whole sandbox, as Sandbox.create\(memory=...\)"),
        ("zzz", "the options are cwd, timeout"),
    ):
        with pytest.raises(TypeError, match=words):
            call(None, **{name: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (stockade.run_command, "run_command(['ls', '-l'])"),
        (object.__new__(Runner).run_command, "run_command(['ls', '-l'])"),
        (object.__new__(Runner).stream_command, "stream_command(['ls', '-l'])"),
        (object.__new__(Sandbox).run_command, "run_command(['ls', '-l'])"),
        (object.__new__(Sandbox).start_command, "start_command(['ls', '-l'])"),
        (object.__new__(Sandbox).terminal, "terminal(['ls', '-l'])"),
        (object.__new__(stockade.Client).run_command, "run_command(['ls', '-l'])"),
        (lambda *words: asyncio.run(object.__new__(stockade.AsyncSandbox).run_command(*words)), "(['ls', '-l'])"),
        (object.__new__(Runner).run, "run() takes source by position, and 2 values were given; an option goes by its "),
    ],
)
def test_value_by_position_that_is_too_many_shows_the_call(call: Any, words: str) -> None:
    with pytest.raises(TypeError) as error:
        call("ls", "-l")
    assert words in str(error.value)


def test_file_as_a_path_says_how_to_read_it() -> None:
    with pytest.raises(JobError, match=r"files\['a.csv'\] .*; its content is Path\('b.csv'\).read_bytes\(\)"):
        stockade.run("1", files={"a.csv": Path("b.csv")})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("made", "name", "meant"),
    [
        (stockade, "sandbox", "Sandbox"),
        (object.__new__(stockade.Result), "output", "stdout"),
        (object.__new__(Sandbox), "exec", "run_command"),
        (object.__new__(Runner), "execute", "run"),
        (object.__new__(Sandbox), "run", "run_command"),
        (object.__new__(Sandbox), "run_code", "interpreter"),
        (object.__new__(Sandbox), "filesystem", "files"),
        (object.__new__(Sandbox), "kill", "close"),
        (object.__new__(Files), "read", "read_text"),
        (object.__new__(Files), "upload", "write"),
        (object.__new__(Files), "mkdir", "make_dir"),
        (object.__new__(Files), "delete", "remove"),
        (object.__new__(Sandbox), "delete", "close"),
        (object.__new__(stockade.Process), "communicate", "wait"),
    ],
)
def test_attribute_of_other_tools_suggests_ours(made: Any, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; did you mean '{meant}'") as error:
        getattr(made, name)
    assert traceback.format_exception_only(error.value)[-1].count("id you mean") == 1  # Python adds nothing
    assert not hasattr(made, "_own")


def test_embedded_runtime_names_the_value() -> None:
    with pytest.raises(PolicyError, match=r"caps = {'fuel': 5}: expected Caps"):
        Runtime({"fuel": 5}, in_process=True)  # type: ignore[arg-type]
    runtime = Runtime(in_process=True)
    assert repr(runtime) == "<Runtime: alive; 0 units of fuel used>"
    with pytest.raises(TypeError, match="source: expected text, not int"):
        runtime.run(5)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="name = 'class': scripts can only call a plain name"):
        runtime.register("class", len)


def test_sandbox_pool_refuses_wrong_arguments_by_name() -> None:
    def create() -> Sandbox:
        raise AssertionError("nothing may start")

    for arguments, words in (
        ({"create": {"memory": "1GiB"}}, "a function that returns a sandbox, such as lambda"),
        ({"size": 0}, "size = 0: the number of sandboxes that wait, from 1 to 1000"),
        ({"size": True}, "size = True"),
        ({"language": "perl"}, "'perl' has no interpreter that keeps state"),
        ({"language": "ruby", "preload": ["json"]}, "preload: only Python imports modules in advance"),
        ({"language": None, "preload": ["json"]}, "language=None asks for none"),
        ({"preload": "json"}, "preload must be a list of module names"),
        ({"preload": ["a b"]}, "preload: 'a b' is not a module name"),
    ):
        with pytest.raises(JobError) as error:
            stockade.SandboxPool(**{"create": create, **arguments})  # type: ignore[arg-type]
        assert words in str(error.value)
