"""``python -m tests.hosts``: the project on another kernel, which has only cgroup v2.

build               build the image, if it is missing
run [KIND...]       as each kind of caller: the limits, then the tests; the three main kinds by default
run --all           every kind, with the tests as the main ones, and the unit tests once
attack              every attack as root and as a user; writes docs/guarantees-cgroup2.md
exec KIND COMMAND   one command in a fresh machine
clean               remove every image
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time

from tests.hosts import attacks, expected, image, suite
from tests.hosts.guest.kinds import KINDS
from tests.hosts.machine import Machine, MachineError, booted


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hosts", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build")
    commands.add_parser("clean")
    commands.add_parser("attack")
    run = commands.add_parser("run")
    run.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    run.add_argument("--all", action="store_true", help="every kind")
    run.add_argument("--no-tests", action="store_true", help="only what holds what")
    execute = commands.add_parser("exec")
    execute.add_argument("kind", choices=KINDS)
    execute.add_argument("argv", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        return _obey(options)
    except (image.Missing, MachineError) as error:
        print(error, file=sys.stderr)
        return 1


def _obey(options: argparse.Namespace) -> int:
    if options.command == "clean":
        shutil.rmtree(image.cache(), ignore_errors=True)
        return 0
    begin = time.monotonic()
    built = image.build()
    print(f"image {built.folder} ({time.monotonic() - begin:.1f} s)", flush=True)
    if options.command == "build":
        return 0
    if options.command == "attack":
        attacks.write(built)
        return 0
    with booted(built) as machine:
        print(f"Linux {machine.kernel}, {machine.accelerator}, up in {machine.boot_seconds:.1f} s", flush=True)
        if options.command == "exec":
            return machine.run(options.kind, options.argv, show=_show, environment=suite.ENVIRONMENT).status
        return _run(machine, options)


def _run(machine: Machine, options: argparse.Namespace) -> int:
    begin = time.monotonic()
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    if unknown:
        print(f"no such kind: {', '.join(unknown)}; there are: {', '.join(KINDS)}", file=sys.stderr)
        return 2
    suite.compile_all(machine)
    held, failed = [], []
    for kind in KINDS if options.all else options.kinds or suite.MAIN:
        held.append(suite.hold(machine, kind))
        mistakes = expected.mistakes(held[-1])
        print(f"== {kind}: held in {held[-1].seconds:.0f} s", *mistakes, sep="\n   not so: ", flush=True)
        tested = kind in suite.MAIN and not options.no_tests
        passed = not tested or _tests_pass(machine, kind, unit=options.all and kind == suite.MAIN[0])
        failed += [kind] if mistakes or not passed else []
    outcome = f"failed: {', '.join(failed)}" if failed else "all well"
    froze = f", booted again {machine.freezes} times" if machine.freezes else ""
    print(f"\n{suite.table(held)}\n\n{time.monotonic() - begin:.0f} s in all{froze}; {outcome}")
    return 1 if failed else 0


def _tests_pass(machine: Machine, kind: str, *, unit: bool) -> bool:
    answer = suite.test(machine, kind, suite.SELECTED + (suite.UNIT if unit else ()), show=_show)
    print(f"== {kind}: tests, exit status {answer.status}, {answer.seconds:.0f} s", flush=True)
    if answer.stuck:
        print("   out of time:", *answer.stuck, sep="\n   ", flush=True)
    for left in answer.left:
        print(f"   left behind: {left}", flush=True)
    return not (answer.status or answer.left)


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
