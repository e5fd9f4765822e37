"""Print the public members of the E2B SDK's sandbox, one a line. `make e2b-table` runs it beside the SDK."""

from importlib.metadata import version

from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.command_handle import CommandHandle
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from e2b_code_interpreter import Sandbox

CLASSES = {"Sandbox": Sandbox, "files": Filesystem, "commands": Commands, "CommandHandle": CommandHandle, "pty": Pty}

print(f"# e2b {version('e2b')}, e2b-code-interpreter {version('e2b-code-interpreter')}")
for name, value in CLASSES.items():
    for member in sorted(set(dir(value))):
        if not member.startswith("_"):
            print(f"{name}.{member}")
