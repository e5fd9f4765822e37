"""``stockade sandbox``: sandboxes with a name, which live from one command line to the next."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from stockade.cli import sandbox_socket
from stockade.cli.audit import audit_options, observe
from stockade.cli.mistakes import Group
from stockade.cli.options import assignments, policy_from, policy_options, trust_option
from stockade.cli.packages import packages_folder, with_option
from stockade.cli.reporting import Command, json_option, print_json, printable, say
from stockade.cli.secrets import secret_option

_HELP = """Keep a sandbox with a NAME from one command line to the next.

A process of yours keeps each sandbox, until 'close', its idle time or its lifetime ends it. Whoever can act as you on
this machine can use it; nobody else can.
"""
_EXAMPLES = """\b
Examples:
  stockade sandbox create build --limit memory=1GiB
  stockade sandbox run build -- sh -c 'echo hello > note'
  stockade sandbox files list build
  stockade sandbox files read build note
  stockade sandbox fork build attempt
  stockade sandbox snapshot build --name after-install
  stockade sandbox ls
  stockade sandbox close build
"""


@click.group(cls=Group, help=_HELP, epilog=_EXAMPLES)
def sandbox() -> None:
    """Group the commands."""


class _Create(Command):
    """Keeps the words of the command line for the holder, which reads them again."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        ctx.meta["words"] = tuple(args)
        return super().parse_args(ctx, args)


@sandbox.command("create", cls=_Create)
@click.argument("name")
@policy_options
@trust_option
@secret_option
@audit_options
@click.option("--packages", metavar="PATH", help="Folder of packages, as for 'stockade run'.")
@with_option
@click.option("--snapshot", metavar="NAME", help="Begin with the files of a snapshot: its name or its path.")
@click.option("--idle", type=float, default=600.0, metavar="SECONDS", help="End it after so long without use; 600.")
@click.option("--lifetime", type=float, default=3600.0, metavar="SECONDS", help="When all of it ends; 3600.")
@click.option("--hold", type=int, hidden=True)
def _create(name: str, hold: int | None, **options: Any) -> int:
    """Start a sandbox called NAME, in which commands run from now on.

    Options describe it as they do for 'stockade shell'. Changes of a workspace with --access overlay end with it.
    """
    sandbox_socket.checked_name(name)
    if hold is None:
        return _start_holder(name, click.get_current_context().meta["words"])
    _hold(name, hold, options)
    return 0


def _start_holder(name: str, words: Sequence[str]) -> int:
    """Start the holder with the same words, and wait until its sandbox is there. It reports its own errors."""
    reading, writing = os.pipe()
    with open(reading, "rb") as report:  # noqa: PTH123 - a descriptor
        holder = subprocess.Popen(
            [sys.executable, "-m", "stockade", "sandbox", "create", "--hold", str(writing), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(writing,),
            start_new_session=True,
        )
        os.close(writing)
        made = report.read()
    if not made:
        return holder.wait() or 1
    say(f"sandbox {name} is there; 'stockade sandbox close {name}' ends it")
    holder.returncode = 0  # it goes on
    return 0


def _hold(name: str, report: int, options: dict[str, Any]) -> None:
    """Become the holder. A creator that is gone by then wants no sandbox."""
    from stockade.api.sandbox import Sandbox
    from stockade.cli.sandbox_holder import Holder

    os.set_inheritable(report, False)
    holder = Holder()
    with _detached_stderr():
        observe(options)
        policy = policy_from(options, options["trust"])
        packages = packages_folder(options["packages"], options["requirements"], policy)
        how: dict[str, Any] = {name: options[name] for name in ("trust", "secrets", "snapshot")}
        how |= {"idle_timeout": options["idle"], "max_lifetime": options["lifetime"]}
        listener = sandbox_socket.listen(name)
        try:
            holder.add(name, Sandbox.create(policy, packages=packages, **how), listener)
            os.write(report, b"ready")
        except BaseException:
            sandbox_socket.forget(name)
            raise
    os.close(report)
    holder.serve()


@contextmanager
def _detached_stderr() -> Iterator[None]:
    """Detach standard error, and attach it again for an error. The warden inherits it, and would keep a pipe open."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    except BaseException:
        os.dup2(kept, 2)
        raise
    finally:
        os.close(kept)


@sandbox.command("run", cls=Command, context_settings={"allow_interspersed_args": False})
@click.option("--cwd", metavar="PATH", help="Folder of the sandbox; default: its workspace.")
@click.option(
    "--env", "environment", multiple=True, metavar="NAME=VALUE", callback=assignments("variable", "NAME=VALUE"),
    help="Set a variable for this command.",
)  # fmt: skip
@click.option("--timeout", type=float, metavar="SECONDS", help="End the command after this; default: the lifetime.")
@click.option("-i", "--interactive", is_flag=True, help="Pass standard input on to the command.")
@click.argument("name")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND [ARGS]...")
def _run(name: str, words: tuple[str, ...], environment: Sequence[tuple[str, str]], **options: Any) -> int:
    """Run a command in the sandbox NAME, and pass its output on as it comes.

    Ctrl-C ends the command. The exit status is that of the command, or what 'stockade run --help' says if something
    else ended it.
    """
    argv = words[words[0] == "--" :]
    found = sandbox_socket.ask(name, "run", seconds=None, argv=argv, environment=dict(environment), **options)
    if found["message"]:
        say(found["message"])
    return int(found["status"])


@sandbox.command("ls", cls=Command)
@json_option
def _ls(as_json: bool) -> int:
    """List your sandboxes with a name."""
    found = {name: shown for name in sandbox_socket.names() if (shown := sandbox_socket.find(name))}
    if as_json:
        print_json({"sandboxes": [{"name": name, **shown} for name, shown in found.items()]})
        return 0
    for name, shown in found.items():
        memory = "" if shown["memory"] is None else f"{shown['memory'] / (1 << 20):8.1f} MiB"
        click.echo(f"{name:<20} {shown['id']} {shown['seconds']:6.0f} s {memory}")
    return 0


@sandbox.command("fork", cls=Command)
@click.argument("name")
@click.argument("new")
def _fork(name: str, new: str) -> int:
    """Start the sandbox NEW with copies of the files of NAME, and with its policy. No process is copied."""
    sandbox_socket.ask(name, "fork", twin=sandbox_socket.checked_name(new))
    say(f"sandbox {new} is there; 'stockade sandbox close {new}' ends it")
    return 0


@sandbox.command("snapshot", cls=Command)
@click.argument("name")
@click.option("--name", "label", metavar="NAME", help="A name by which 'create --snapshot NAME' finds it.")
@click.option("--folder", metavar="PATH", help="Where to write it; default: your data folder.")
@json_option
def _snapshot(name: str, label: str | None, folder: str | None, as_json: bool) -> int:
    """Keep the files of the sandbox NAME, and print the path of the snapshot."""
    folder = None if folder is None else os.path.abspath(folder)  # noqa: PTH100 - the holder is elsewhere
    found = sandbox_socket.ask(name, "snapshot", label=label, folder=folder)
    if as_json:
        print_json(found)
    else:
        click.echo(found["path"])
    return 0


@sandbox.command("close", cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def _close(names: tuple[str, ...]) -> int:
    """End sandboxes with every process and all files of them."""
    for name in names:
        sandbox_socket.ask(name, "close")
    return 0


@sandbox.group("files")
def _files() -> None:
    """List, read and write files of a sandbox, within its own view and limits."""


@_files.command("list", cls=Command)
@click.argument("name")
@click.argument("path", default=".")
@json_option
def _list(name: str, path: str, as_json: bool) -> int:
    """List a folder of the sandbox NAME; default: its workspace."""
    found = sandbox_socket.ask(name, "list", path=path)
    if as_json:
        print_json(found)
        return 0
    for each in found["files"]:
        click.echo(f"{each['kind']:<10} {each['size']:>12} {printable(each['path'])}")
    return 0


@_files.command("read", cls=Command)
@click.argument("name")
@click.argument("path")
def _read(name: str, path: str) -> int:
    """Write the content of a file of the sandbox NAME to standard output."""
    sandbox_socket.ask(name, "read", path=path)
    return 0


@_files.command("write", cls=Command)
@click.argument("name")
@click.argument("path")
def _write(name: str, path: str) -> int:
    """Write standard input, up to 64 MiB, to a file of the sandbox NAME."""
    sandbox_socket.ask(name, "write", path=path)
    return 0
