"""Unusual callers: greenlets, forks, a removed package, daemon threads, a subreaper."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import stockade

pytestmark = pytest.mark.needs("native")
SECONDS = 60


def ran(script: str, *, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``script`` as a caller of its own, which finds stockade in ``path``."""
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, timeout=SECONDS, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.needs("gevent")
def test_gevent_caller_runs_feeds_and_streams() -> None:
    script = """
        from gevent import monkey; monkey.patch_all()
        import gevent, stockade
        box = stockade.Runner()
        print([box.run("print(1)").stdout for _ in range(5)] == ["1\\n"] * 5)
        print(len(box.run_command(["cat"], stdin=b"x" * 3_000_000).stdout_bytes) > 60_000)
        with box.stream("import sys; print(len(sys.stdin.read()))", interactive=True) as run:
            run.write("x" * 900_000)
            run.close_stdin()
            print("".join(event.data.decode() for event in run if isinstance(event, stockade.Output)))
        jobs = gevent.joinall([gevent.spawn(box.run, f"print({n})") for n in range(6)])
        print(sorted(job.value.stdout for job in jobs) == [f"{n}\\n" for n in range(6)])
    """
    assert ran(script).stdout.split() == ["True", "True", "900000", "True"]


def test_unwinding_child_leaves_parent_run_alone() -> None:
    """A child leaves a stream's context, cancels the run, and drops a stream; the parent's runs go on."""
    script = """
        import os, stockade
        box = stockade.Runner()
        kept = box.stream("print(input())", interactive=True)
        with box.stream("print(input())", interactive=True) as run:
            next(event for event in run if isinstance(event, stockade.Started))
            if os.fork() == 0:
                run.cancel()
                try:
                    next(run)
                except stockade.JobError as error:
                    print(error, flush=True)
                run.__exit__(None, None, None)
                del kept, run
                os._exit(0)
            os.wait()
            for each in (run, kept):
                each.write("alive\\n")
                list(each)
                print(each.result.outcome, each.result.stdout)
    """
    said = ran(script).stdout
    assert "a process forked from that one cannot follow it" in said
    assert said.count("completed alive") == 2


def test_fork_beside_first_run_holds_no_lock() -> None:
    script = """
        import os, signal, threading, time, stockade
        late = float(os.environ["LATE"])
        first = threading.Thread(target=lambda: stockade.run("1"))
        first.start()
        time.sleep(late)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if stockade.run("1").ok else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        first.join()
    """
    for late in range(6):
        assert ran(f"import os; os.environ['LATE'] = '{late * 0.012}'\n" + textwrap.dedent(script)).stdout == "0\n", (
            late
        )


@pytest.mark.parametrize("begun", ["", "stockade.Runner;", "stockade.run('1');"])
def test_removed_package_is_named(begun: str, tmp_path: Path) -> None:
    """Loaded code goes on, or an error of ours names the missing package; never a bare ModuleNotFoundError."""
    copy = tmp_path / "site"
    shutil.copytree(Path(stockade.__file__).parent, copy / "stockade", ignore=shutil.ignore_patterns("__pycache__"))
    script = f"""
        import os, shutil, signal, time, stockade
        from pathlib import Path
        {begun}
        shutil.rmtree({str(copy)!r})
        for child in Path("/proc/self/task", str(os.getpid()), "children").read_text().split():
            os.kill(int(child), signal.SIGKILL)  # a warden that lives needs none of the files
            time.sleep(0.3)
        for call in (lambda: stockade.run("1"), lambda: stockade.run("1", language="ruby"), lambda: stockade.plan()):
            try:
                call()
            except stockade.SetupError as error:
                print("removed or replaced" in str(error))
    """
    assert ran(script, path=copy).stdout.split() == ["True"] * 3


def test_first_run_imports_and_compiles_little() -> None:
    """No backend after the chosen one is imported, and no frozen class has methods that were compiled from text."""
    script = """
        import sys, stockade
        result = stockade.run("1")
        assert result.ok, result
        print(stockade.select().backend.name)
        print(*sorted({name.split(".")[2] for name in sys.modules if name.startswith("stockade.backends.")}))
        classes = [kind for name, module in list(sys.modules.items()) if name.startswith("stockade.")
                   for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == name]
        frozen = [kind for kind in classes if "__dataclass_fields__" in vars(kind)
                  and (kind.__dataclass_params__.frozen, kind.__dataclass_params__.eq) == (True, True)]
        print(len(frozen) > 20, [kind for kind in frozen if kind.__name__ != "_Frozen" and kind.__setattr__.__code__.co_filename == "<string>"])
    """
    chosen, imported, frozen = ran(script).stdout.splitlines()
    if chosen == "native":
        assert imported == "base native registry shared"
    assert frozen == "True []"


def test_daemon_threads_end_quietly_at_exit() -> None:
    script = """
        import threading, time, stockade
        box = stockade.Runner()
        def again(call):
            while True:
                call()
        for call in (lambda: box.run("1"), lambda: stockade.run_command(["true"]), lambda: box.run("1")):
            threading.Thread(target=again, args=(call,), daemon=True).start()
        time.sleep(0.4)
    """
    for _ in range(3):
        assert ran(script).stderr == ""


def test_subreaper_reaps_zombies_of_past_wardens() -> None:
    """The zombies are guests and helpers of a killed warden and of a child's warden. The caller's own children stay."""
    script = """
        import ctypes, os, signal, subprocess, time, stockade
        from pathlib import Path
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: as the first process of a namespace is
        own = subprocess.Popen(["true"])
        def below(state):
            found = []
            for pid in Path("/proc/self/task").glob("*/children"):
                for child in pid.read_text().split():
                    stat = Path(f"/proc/{child}/stat").read_text()
                    found += [int(child)] if stat.rpartition(") ")[2][0] in state else []
            return found
        from stockade.client import warden_process
        for _ in range(3):
            assert stockade.run("1", warm=False).ok
            os.kill(warden_process.current().pid, signal.SIGKILL)
            time.sleep(0.3)
        if os.geteuid() == 0:
            guest = os.fork()
            if guest == 0:  # as the kernel hands over a guest whose warden and reaper were killed
                os.setuid(2000065535)
                os._exit(0)
        child = os.fork()
        if child == 0:
            stockade.run("1")
            os._exit(0)
        os.waitpid(child, 0)
        time.sleep(0.7)
        assert stockade.run("1").ok
        if os.fork() == 0:
            os._exit(0)
        time.sleep(0.2)
        print(len(below("Z")), own.wait())
    """
    assert ran(script).stdout == "2 0\n"


def test_ctrl_c_does_not_reach_a_warden_that_starts() -> None:
    """A signal to the caller's group ended it in the middle of its imports, with a traceback on the terminal."""
    ran(
        """
        import os
        from stockade.client.warden_process import WardenProcess
        warden = WardenProcess()
        assert os.getsid(warden.pid) == warden.pid != os.getpid()
        warden.facts()
        warden.stop()
        """
    )
