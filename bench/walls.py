"""Measure each wall: the steps that set up a sandbox, the control groups, and the cost to the program afterwards.

    python bench/walls.py [--runs 100] [--json FILE]

Steps and groups are timed one by one in this process's own children, with the library's own code. All but the last
table is paid ahead of demand where a caller runs one program after another. Medians, in one run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stockade
from stockade.backends.native import backend
from stockade.core.launch import Groups, Launch, decode_steps
from stockade.linux import cgroups, landlock, probe, processes, seccomp
from stockade.linux.seccomp import install
from stockade.linux.stage import Stage
from stockade.runs.job import Command, Job

NAMESPACES = {
    "mount": processes.NEW_NS,
    "pid": processes.NEW_PID,
    "ipc": processes.NEW_IPC,
    "uts": processes.NEW_UTS,
    "network": processes.NEW_NET,
}
ALL = sum(NAMESPACES.values())
LEASED = 200_001
CALLS = 20_000
Times = dict[str, list[float]]

FIGURES = Groups(memory=1 << 28, swap=0, processes=12)


def in_child(work: Callable[[], dict[str, float]], flags: int = 0) -> dict[str, float]:
    """Run ``work`` in a forked child, in new namespaces if ``flags`` say so, and return what it measured."""
    reading, writing = os.pipe()
    uid, gid = os.geteuid(), os.getegid()
    pid = processes.clone(flags)
    if pid == 0:
        try:
            if flags & processes.NEW_USER:
                processes.map_identity(os.open("/proc", os.O_PATH), 0, uid, 0, gid)
            os.write(writing, json.dumps(work()).encode())
        except BaseException as error:
            print(f"walls: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit("walls: a child failed")
    measured: dict[str, float] = json.loads(data)
    return measured


def set_up(launch: Launch, *, privileged: bool) -> dict[str, float]:
    """Carry out a launch's steps as a sandbox's own process does; return microseconds for each kind of step."""
    uid, gid = (LEASED, LEASED) if privileged else (0, 0)
    stage = Stage(uid=uid, gid=gid, privileged=privileged)
    spent: dict[str, float] = {}
    for step in decode_steps(launch.base):
        begin = time.perf_counter()
        stage.apply([step])
        spent[step[0]] = spent.get(step[0], 0.0) + (time.perf_counter() - begin) * 1e6
    return spent


def groups(facts: dict[str, Any], runs: int) -> Times:
    """Take a run's control groups through their life; microseconds for each part."""
    found = [cgroups.Hierarchy(version=v, path=p, controllers=c) for v, p, c in facts["hierarchies"]]
    times: Times = {}
    if not found:
        return times
    tree = cgroups.Tree(found, os.urandom(8).hex())
    try:
        for _ in range(runs):
            group = timed(times, "make", tree.make)
            entrances = group.open_cgroup_fds()
            pid = timed(times, "enter, with a fork", lambda entrances=entrances: enter(entrances))
            for fd in entrances:
                os.close(fd)
            timed(times, "begin to count", lambda group=group: group.begin(2))
            timed(times, "set limits", lambda group=group: group.limit(FIGURES))
            timed(times, "read at the end", group.read)
            timed(times, "make fit for the next run", lambda group=group, pid=pid: group.renew({pid}))
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            timed(times, "remove", lambda group=group: tree.remove(group))
    finally:
        tree.close()
    return times


def enter(entrances: list[int]) -> int:
    """Fork a child that enters the groups; return its pid once it is in them."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        for fd in entrances:
            os.write(fd, b"0")
        os.write(writing, b".")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    return pid


def timed(times: Times, name: str, call: Callable[[], Any]) -> Any:
    """Call, and note the microseconds under ``name``."""
    begin = time.perf_counter()
    result = call()
    times.setdefault(name, []).append((time.perf_counter() - begin) * 1e6)
    return result


def afterwards(walls: Callable[[], None]) -> dict[str, float]:
    """Return what two calls cost behind ``walls``, nanoseconds each: one that does nothing, and opening a file."""
    walls()
    path = "/usr/bin/env"
    return {"getppid": each(os.getppid, CALLS), "open and close": each(lambda: os.close(os.open(path, 0)), CALLS // 4)}


def each(call: Callable[[], object], count: int) -> float:
    """Return nanoseconds a call."""
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count * 1e9


def measure(runs: int) -> dict[str, Any]:
    """Measure everything; return tables of medians."""
    facts = probe.probe(LEASED)
    privileged = bool(facts["privileged"])
    plan = stockade.plan()
    launch = backend.launch(plan, Job(argv=("true",)), Command(argv=("true",)))
    steps: Times = {}
    spaces: Times = {}
    user = 0 if privileged else processes.NEW_USER
    for _ in range(runs):
        gather(steps, in_child(lambda: set_up(launch, privileged=privileged), ALL | user))
        for name, flag in ({"none": 0} | NAMESPACES | {"all five": ALL}).items():
            timed(spaces, name, lambda flag=flag: in_child(dict, flag | (user if flag else 0)))
    program = seccomp.build(seccomp.Filter.STANDARD, seccomp.Arch(facts["machine"]))
    ruleset = landlock.Ruleset(read=["/"], execute=["/"], read_write=["/tmp"], tcp_bind="all", tcp_connect="all")
    behind: dict[str, Times] = {}
    for _ in range(max(3, runs // 10)):
        for name, walls in {
            "neither": lambda: None,
            "the filter": lambda: install.install(program),
            "Landlock": lambda: confine(ruleset),
            "both": lambda: (confine(ruleset), install.install(program)),
        }.items():
            gather(behind.setdefault(name, {}), in_child(lambda walls=walls: afterwards(walls)))
    return {
        "namespaces": medians(spaces),
        "steps": medians(steps),
        "groups": medians(groups(facts, runs)),
        "behind": {name: medians(times) for name, times in behind.items()},
    }


def confine(ruleset: landlock.Ruleset) -> None:
    processes.no_new_privileges()
    landlock.restrict(ruleset)


def gather(times: Times, measured: dict[str, float]) -> None:
    for name, value in measured.items():
        times.setdefault(name, []).append(value)


def medians(times: Times) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in times.items()}


def show(found: dict[str, Any]) -> None:
    """Print the tables, in Markdown."""
    bare = found["namespaces"].pop("none")
    print(f"A fork, its end and the wait for it take {bare:.0f} us; above that, in a namespace of its own:\n")
    table("namespace", "us more", {name: value - bare for name, value in found["namespaces"].items()})
    print(f"\nFurnishing a sandbox takes {sum(found['steps'].values()):.0f} us:\n")
    table("step", "us", found["steps"])
    if found["groups"]:
        print("\nControl groups:\n")
        table("part", "us", found["groups"])
    print("\nWhat a program pays afterwards:\n\n| behind | getppid, ns | open and close, ns |\n| --- | --- | --- |")
    for name, case in found["behind"].items():
        print(f"| {name} | {case['getppid']:.0f} | {case['open and close']:.0f} |")


def table(what: str, unit: str, rows: dict[str, float]) -> None:
    print(f"| {what} | {unit} |\n| --- | --- |")
    for name, value in sorted(rows.items(), key=lambda row: -row[1]):
        print(f"| {name.replace('_', ' ')} | {value:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    found = measure(options.runs)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    show(found)


if __name__ == "__main__":
    main()
