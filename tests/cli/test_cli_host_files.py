"""Output files of the commands: never in a guest's folder, through a guest's link or over another file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("native")

PROGRAM = '{"id": "a", "source": "open(\'OPEN/started\', \'w\')", "expected": ""}\n'
CODE = "open('OPEN/started', 'w')"
COMMANDS = {
    "eval -o": ["eval", "p.jsonl", "-o", "PATH"],
    "eval --report": ["eval", "p.jsonl", "-o", "v.jsonl", "--report", "PATH"],
    "eval --audit": ["eval", "p.jsonl", "--audit", "PATH"],
    "run --result-file": ["run", "--result-file", "PATH"],
    "run --artifacts-to": ["run", "--artifacts", "*", "--artifacts-to", "PATH"],
    "attack --junit": ["attack", "--only", "wall_time/sleep", "--policy", "policy.toml", "--junit", "PATH"],
}


@pytest.fixture
def opened(folder: Path) -> Path:
    """A folder that the guest may write to, and input files for the commands beside it."""
    place = folder / "open"
    place.mkdir()
    place.chmod(0o777)
    (folder / "p.jsonl").write_text(PROGRAM.replace("OPEN", str(place)))
    (folder / "policy.toml").write_text(f'accept.disk = "absent"\n[filesystem]\nwrite = ["{place}"]\n')
    (folder / "outside").mkdir()
    return place


def arguments(command: str, path: str, opened: Path) -> list[str]:
    """Return the command that writes to ``path`` while its guest may write to ``opened``."""
    argv = [path if word == "PATH" else word for word in COMMANDS[command]]
    if argv[0] == "attack":
        return argv
    code = ["-c", CODE.replace("OPEN", str(opened))] if argv[0] == "run" else []
    return [*argv, "--write", str(opened), "--accept", "disk=absent", *code]


@pytest.mark.parametrize("command", COMMANDS)
def test_output_in_guests_folder_is_refused(stockade, command: str, folder: Path, opened: Path) -> None:
    (folder / "by-name").symlink_to("open")
    (opened / "guests-link").symlink_to(folder / "outside")
    (folder / "by-two").symlink_to("open/guests-link")
    for path in ("open/x", "by-name/x", "by-two/x", "open/../open/x"):
        done = stockade(*arguments(command, path, opened))
        said = done.stderr.decode()
        assert done.returncode in (2, 125) and f"{path}: lies in {opened}" in said and "outside of the folders" in said
        assert [path.name for path in opened.iterdir()] == ["guests-link"] and not [*(folder / "outside").iterdir()]


def test_output_through_callers_link_is_written(stockade, folder: Path, opened: Path) -> None:
    (folder / "link.json").symlink_to("outside/real.json")
    assert stockade("run", "--result-file", "link.json", "-c", "1").returncode == 0
    assert json.loads((folder / "outside" / "real.json").read_text())["outcome"] == "completed"
    assert (folder / "link.json").is_symlink()


def test_output_planted_links_are_not_followed(stockade, folder: Path) -> None:
    victim = folder / "victim"
    victim.write_text("precious")
    (folder / "p.jsonl").write_text("".join(f'{{"id": "{n}", "source": "print(1)", "expected": "1"}}\n' for n in "ab"))
    for name in ("r.html.draft", "v.jsonl.batch.draft", "v.jsonl.batch", "v.jsonl.sorted"):
        (folder / name).symlink_to(victim)
    done = stockade("eval", "p.jsonl", "-o", "v.jsonl", "--report", "r.html", "--ordered", "--quiet")
    assert done.returncode == 0, done.stderr
    assert victim.read_text() == "precious"
    assert "<html" in (folder / "r.html").read_text() and len((folder / "v.jsonl").read_text().splitlines()) == 2
    assert not (folder / "v.jsonl.batch").is_symlink()


@pytest.mark.parametrize("option", ["--result-file", "-o"])
def test_output_hard_link_is_refused(stockade, option: str, folder: Path) -> None:
    victim = folder / "victim"
    victim.write_text("precious")
    (folder / "x").hardlink_to(victim)
    (folder / "p.jsonl").write_text('{"id": "c", "source": "print(1)", "expected": "1"}\n')
    run = (
        ["run", option, "x", "-c", "1"]
        if option == "--result-file"
        else ["eval", "p.jsonl", option, "x", "--overwrite"]
    )
    done = stockade(*run)
    assert done.returncode in (2, 125) and b"second name" in done.stderr
    assert victim.read_text() == "precious"


def test_eval_pipe_as_batch_record_does_not_hang(stockade, folder: Path) -> None:
    (folder / "p.jsonl").write_text('{"id": "d", "source": "print(1)", "expected": "1"}\n')
    assert stockade("eval", "p.jsonl", "-o", "v.jsonl", "--quiet").returncode == 0
    (folder / "v.jsonl.batch").unlink()
    os.mkfifo(folder / "v.jsonl.batch")
    done = stockade("eval", "p.jsonl", "-o", "v.jsonl", "--quiet")
    assert done.returncode in (2, 125) and b"v.jsonl.batch: cannot be read" in done.stderr


def test_output_to_dev_stdout_is_written(stockade, folder: Path) -> None:
    done = stockade("run", "--result-file", "/dev/stdout", "-c", "1")
    assert json.loads(done.stdout)["outcome"] == "completed"
    assert stockade("run", "--result-file", "/dev/null", "-c", "1").returncode == 0


def test_cache_guests_link_is_not_followed(stockade, folder: Path) -> None:
    home = folder / "home"
    (home / ".cache").mkdir(parents=True)
    (folder / "outside").mkdir()
    (home / ".cache" / "stockade").symlink_to(folder / "outside")
    own = {"HOME": str(home), "XDG_CACHE_HOME": ""}
    assert stockade("run", "-c", "1", env=own).returncode == 0
    assert not [*(folder / "outside").iterdir()]
    (home / ".cache" / "stockade").unlink()
    assert stockade("run", "-c", "1", env=own).returncode == 0
    assert json.loads((home / ".cache" / "stockade" / "start-costs.json").read_text())
