"""The rights that each profile gives each language, from real runs.

``python -m tests.contract.profiles`` prints the table of docs/guides/policies.md.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import stockade
from stockade import Outcome

PROFILES = ("default", "strict", "conservative", "moderate", "generous", "dev", "build", "test")
PROJECTS = ("dev", "build", "test")
_OWNER = 60123  # the owner of the project if root runs this: a guest never writes to a folder of root's

# Each program prints a word for each right that it has. Starting a process comes last, because it can block.
PROGRAMS = {
    "python": """
import os, socket, sys
print("ran", flush=True)
def tried(word, act):
    try:
        act()
        print(word, flush=True)
    except OSError:
        pass
def start():
    if os.fork() == 0:
        os._exit(0)
    os.wait()
tried("file", lambda: open("made", "w").close())
tried("network", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2))
tried("process", start)
""",
    "ruby": """
require "socket"
$stdout.sync = true
puts "ran"
def tried(word)
  yield
  puts word
rescue SystemCallError
end
tried("file") { File.write("made", "") }
tried("network") { TCPSocket.new("127.0.0.1", ARGV[0].to_i) }
tried("process") { Process.wait(fork { exit!(0) }) }
""",
    "javascript": """
const fs = require("fs"), net = require("net"), { spawnSync } = require("child_process");
console.log("ran");
try { fs.writeFileSync("made", ""); console.log("file"); } catch {}
const finish = () => { if (spawnSync("true").status === 0) console.log("process"); };
const socket = net.connect(Number(process.argv[2]), "127.0.0.1");
socket.on("connect", () => { console.log("network"); socket.destroy(); finish(); });
socket.on("error", finish);
""",
    "shell": """
echo ran
{ : > made; } 2>/dev/null && echo file
{ exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null && echo network
/bin/true 2>/dev/null && echo process
""",
}
LANGUAGES = (*PROGRAMS, "command")


def rights(profile: str, language: str, port: int) -> str:
    """Return the rights of a program of this language under this profile, or the text of the refusal."""
    security = {"host_uid": _OWNER} if profile in PROJECTS and os.geteuid() == 0 else {}
    sooner = {"wall_time": 4} if profile == "strict" else {}  # some programs run until this limit
    policy = stockade.Policy.profile(profile, security=security, limits=sooner)
    try:
        if language == "command":
            script = PROGRAMS["shell"].replace("$1", str(port))
            result = stockade.run_command(["bash", "-c", script], policy=policy)
        else:
            result = stockade.run(PROGRAMS[language], language=language, arguments=[str(port)], policy=policy)
    except stockade.StockadeError as error:
        return f"refused: {error}"
    words = ", ".join(result.stdout.split())
    return words if result.outcome is Outcome.COMPLETED else f"{words}; {result.summary().partition(':')[0]}"


@contextmanager
def project_and_listener():
    """Make a project the current folder, listen on the host's loopback, and yield the port."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="profiles-") as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        project = Path(folder) / "project"
        (project / ".git" / "hooks").mkdir(parents=True)
        (project / ".git" / "config").write_text("")
        Path(folder).chmod(0o755)
        if os.geteuid() == 0:
            os.chown(project, _OWNER, _OWNER)
        os.chdir(project)
        try:
            yield listener.getsockname()[1]
        finally:
            os.chdir(before)


def table(rows: dict[tuple[str, str], str]) -> list[str]:
    """Return the lines of the table. Each text of a refusal appears once, below the table."""
    notes: list[str] = []

    def short(text: str) -> str:
        if not text.startswith("refused: "):
            return text
        if text not in notes:
            notes.append(text)
        return f"refused [{notes.index(text) + 1}]"

    lines = [f"| profile | {' | '.join(LANGUAGES)} |", "| --- |" + " --- |" * len(LANGUAGES)]
    lines += [f"| {name} | {' | '.join(short(rows[name, each]) for each in LANGUAGES)} |" for name in PROFILES]
    return [*lines, "", *(f"[{number}] {text}" for number, text in enumerate(notes, 1))]


def main() -> int:
    with project_and_listener() as port:
        rows = {(name, each): rights(name, each, port) for name in PROFILES for each in LANGUAGES}
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
