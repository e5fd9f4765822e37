"""A user's program type-checks under ``mypy --strict`` against the installed package, and wrong calls do not."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("user_program.py")
WRONG = """\
import stockade
stockade.run("1", timeot=2)
stockade.run("1", network="some")
stockade.run_command("ls", language="ruby")
stockade.Runner(language="ruby")
stockade.run("1").stdout_bytes.splitlines("x")
stockade.Runner().run("1", timeout=2)
stockade.Client("http://a").run("1", interpreter="x")
runner: stockade.RunsCode[str] = stockade.Runner()
stockade.AsyncClient("http://a").run_command(["a"], language="ruby")
async def wrong(sandbox: stockade.AsyncSandbox) -> None:
    await sandbox.run_command(["true"], timeot=2)
    await sandbox.files.write("a", 5)
    (await sandbox.interpreter()).version.nothing
async def wrong_there(client: stockade.AsyncClient) -> None:
    sandbox = await client.create_sandbox(memroy="1MiB")
    await sandbox.run_command(["true"], timeot=2)
    text: str = await sandbox.files.read_bytes("a")
"""


def mypy(place, program):
    arguments = ["--strict", "--no-error-summary", "--cache-dir", place / "cache", program]
    command = [sys.executable, "-m", "mypy", "--config-file", "", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, check=False)
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


def test_user_program_passes_strict_type_checks(tmp_path):
    assert mypy(tmp_path, PROGRAM) == []


def test_wrong_calls_fail_type_checks(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    found = mypy(tmp_path, "wrong.py")
    lines = {int(line.split(":")[1]) for line in found if ": error: " in line}
    assert lines == {*range(2, 11), 12, 13, 14, 16, 17, 18}, found
