"""An option with the name that another tool uses is refused with stockade's own."""

from __future__ import annotations

import pytest

from stockade.cli.commands import execute


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--timeout=5", "--limit wall_time=VALUE"), ("--memory", "--limit memory=VALUE"), ("--cpus", "--limit cpu_rate=VALUE"),
        ("--open-files", "--limit open_files=VALUE"), ("--pids-limit", "--limit processes=VALUE"),
        ("--volume", "--read"), ("-v", "--read PATH' or '--write PATH"), ("--workdir", "--workspace"),
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
