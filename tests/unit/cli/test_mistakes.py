"""Mistakes on the command line are refused with the name that was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from stockade.cli.commands import execute
from stockade.cli.outputs import _is_cache


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--timeout=5", "--limit wall_time=VALUE"), ("--memory", "--limit memory=VALUE"), ("--cpus", "--limit cpu_rate=VALUE"),
        ("--open-files", "--limit open_files=VALUE"), ("--pids-limit", "--limit processes=VALUE"),
        ("-m", "--limit memory=VALUE', or, for a module, '-- python -m NAME"), ("--volume", "--read"), ("-v", "--read PATH' or '--write PATH"), ("--workdir", "--workspace"),
        ("--netwrok", "--network"), ("--net", "--network"), ("--lang", "--language"), ("--environ", "--env"),
    ],
)  # fmt: skip
def test_unknown_option_names_the_one_that_was_meant(
    option: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["run", option, "5", "-c", "1"]) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_unknown_option_without_a_likely_meaning_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["doctor", "--xyzzy"]) == 2
    assert "No such option '--xyzzy'.\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["runn"], "Did you mean 'stockade run'?"),
        (["exec", "x"], "Did you mean 'stockade run'?"),
        (["here.py"], "Did you mean 'stockade run here.py'?"),
        (["run", "hree.py"], "did you mean here.py?"),
        (["run", "--policy", "no.toml", "-c", "1"], "policy = no.toml: cannot be read: No such file or directory\n"),
        (["run", "--policy", "strickt", "-c", "1"], "the profile 'strict' is --profile strict"),
        (["run", "--profile", "p.toml", "-c", "1"], "Policy.load reads a file"),
        (["run", "print(1)"], "to run source text: stockade run -c 'print(1)'"),
        (["run", "ls -l"], "to run a command, put '--' before it: stockade run -- ls -l"),
        (["run", "--network", "example.org", "-c", "1"], "To open single targets, give --allow HOST:PORT."),
        (["run", "--limit", "tiemout=3", "-c", "1"], "'tiemout' is not a limit; did you mean 'wall_time'?"),
        (["run", "--stdin", "in.txt", "here.py"], "Did you mean 'stockade run ... < FILE'?"),
        (["policy", "show", "strict"], "(strict). Did you mean '--profile strict'?"),
        (["policy", "chek"], "Did you mean 'stockade policy check'?"),
        (["keys", "rm", "ada"], "Did you mean 'stockade keys remove'?"),
        (["keys", "add", "ada", "--data", "gone"], "--data gone: no such folder; name the folder of 'stockade serve'"),
        (["sandbox", "rm", "box"], "Did you mean 'stockade sandbox close'?"),
        (["audit", "vrify", "log"], "Did you mean 'stockade audit verify'?"),
        (["audit", "audit.jsonl"], "Did you mean 'stockade audit verify audit.jsonl'?"),
        (["policy", "strict"], "Did you mean 'stockade policy show --profile strict'?"),
        (["policy", "p.toml"], "Did you mean 'stockade policy check p.toml'?"),
        (["policy", "list"], "No such command 'list'. 'stockade policy' has check, profiles, schema, show.\n"),
        (["images", "rm"], "No such command 'rm'. 'stockade images' has build, pull.\n"),
        (["images", "python:3"], "Did you mean 'stockade images pull python:3'?"),
        (["sandbox", "ls", "box"], "(box). Did you mean 'stockade sandbox run box -- ls'?"),
        (["attack", "--backend", "native", "memory/mbind"], "Did you mean 'stockade attack --only memory/mbind'?"),
        (["kill", "f68f"], "(f68f). Did you mean 'stockade kill --sandbox f68f'?"),
        (["eval", "-j", "4", "programs.jsonl"], "Did you mean '--jobs' or '--json'?"),
        (["run", "-j", "-c", "1"], "Did you mean '--json'?"),
        (["version"], "Write 'stockade --version'."),
        (["audit", "show", "log", "--user", "ada"], "Did you mean '--label user=VALUE'?"),
        (["kill", "--status"], "Did you mean '--show'?"),
        (["serve", "--listen", "127.0.0.1"], "Did you mean '--host'?"),
        (["eval", "-q", "programs.jsonl"], "Did you mean '--quiet'?"),
        (["repl", "--lang", "ruby"], "Did you mean 'stockade repl LANGUAGE'?"),
        (["check", "."], ".: is a folder; name scripts"),
    ],
)
def test_mistaken_word_is_named_with_what_was_meant(
    words: list[str], meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here.py").write_text("1")
    monkeypatch.chdir(tmp_path)
    assert execute(words) == 2
    assert meant in capsys.readouterr().err


def test_command_that_is_unlike_any_other_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["xyzzy"]) == 2
    assert "No such command 'xyzzy'.\n" in capsys.readouterr().err


def test_cache_of_python_is_not_called_discarded() -> None:
    assert _is_cache("a/__pycache__/b.pyc") and not _is_cache("a/b.pyc")


@pytest.mark.parametrize("words", [[], ["audit"], ["policy"], ["images"], ["packages"]])
def test_list_of_commands_fits_a_terminal(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert execute([*words, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = lines[lines.index("Commands:") + 1 :]
    assert listed and not [line for line in listed if line.endswith("...")]
