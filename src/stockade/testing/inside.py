"""The names that a guest finds inside: its own host name, accounts, and the answers to other ids."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
from pathlib import Path

import pytest

from stockade.testing.base import Expectations, Run, open_up

_OTHER_IDS = """
import os
open("file", "w").close()
for call in (lambda id: os.chown("file", id, -1), lambda id: os.chown("file", -1, id), os.setuid, os.setgid,
             lambda id: os.setresuid(id, id, id), lambda id: os.setregid(-1, id)):
    for id in (0, 12345):
        try:
            call(id)
        except OSError as error:
            print(error.errno, end=" ")
os.setresuid(-1, os.getuid(), -1)
"""

_TERMINALS = """
import os, pty
print(sorted(os.listdir("/dev/pts")))
main, other = pty.openpty()
os.write(other, b"ok")
print(os.read(main, 10).decode(), os.isatty(other))
held = []
try:
    while len(held) < 40:
        held.append(pty.openpty())
except OSError:
    pass
print(len(held))
"""
_TYPES = """
import fcntl, os, pty, termios
pid, main = pty.fork()
if pid:
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
else:
    try:
        fcntl.ioctl(0, termios.TIOCSTI, b"x")
    except OSError as error:
        os._exit(error.errno)
    os._exit(0)
"""


class InsideContract(Expectations):
    """A guest finds the names that programs look up, as on any Linux host."""

    @pytest.mark.parametrize("network", ["none", "host"])
    def test_own_host_name_is_a_loopback_address(self, run: Run, network: str) -> None:
        if not self.finds_names:
            return
        if network == "host" and not self.has_host_network:
            self.check_refused("network='host'", network=network)
            return
        source = "import socket\nprint(socket.gethostbyname(socket.gethostname()), socket.gethostbyname('localhost'))"
        result = run(source, policy={"network": network})
        assert result.stdout == "127.0.0.1 127.0.0.1\n", result.stderr

    def test_root_and_guest_have_accounts(self, run: Run) -> None:
        if not self.finds_names:
            return
        source = (
            "import getpass, grp, os, pwd\n"
            "print(pwd.getpwnam('root').pw_uid, grp.getgrgid(0).gr_name)\n"
            "assert getpass.getuser() == pwd.getpwuid(os.getuid()).pw_name\n"
        )
        result = run(source)
        assert (result.ok, result.stdout) == (True, "0 root\n"), result.stderr

    def test_call_that_names_another_id_fails(self, run: Run) -> None:
        result = run(_OTHER_IDS)
        assert (result.ok, result.stdout.split()) == (True, [str(self.other_id)] * 12), (result.stdout, result.stderr)

    def test_git_reads_shown_project_of_any_owner(self, tmp_path: Path) -> None:
        if not self.own_root or self.brings_programs:
            return  # the guest has the settings of the host's git, or the image's
        project = tmp_path / "project"
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(project))
        project.mkdir()
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
            subprocess.run([*git, *words], check=True)
        open_up(project)
        policy = {"filesystem": {"workspace": project, "hidden": []}}
        if not self.shows_host_paths:
            self.check_refused("filesystem.workspace", **policy)
            return
        result = self.run_command(["git", "log", "--format=%s"], policy=policy)
        assert result.stdout == "one\n", result.stderr

    def test_guest_has_bounded_terminals_of_its_own(self, run: Run) -> None:
        if not self.has_terminals:
            return
        held = pty.openpty()  # the host has at least this one
        result = run(_TERMINALS, policy={"limits": {"open_files": 256}})
        for fd in held:
            os.close(fd)
        assert result.stdout.splitlines()[:2] == ["['ptmx']", "ok True"], result.stderr
        assert int(result.stdout.split()[-1]) == (31 if self.bounds_terminals else 40)

    def test_guest_cannot_type_into_its_terminal(self, run: Run) -> None:
        if self.has_terminals:
            assert int(run(_TYPES).stdout) in (errno.EPERM, errno.ENOTTY)
