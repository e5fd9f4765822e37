"""A fault of stockade's own processes costs at most the runs in it, and the error says why. See docs/faults.md."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support import faults, host
from tests.system import fault_table
from tests.system.fault_table import DONE, FAILED, MARGIN, WALL, Case, Found

import stockade
from stockade import Outcome

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]


@pytest.fixture(scope="module")
def table() -> dict[Case, Found]:
    return fault_table.try_all()


@pytest.mark.needs("root")  # to shut down the sockets of others
@pytest.mark.needs("cgroup-unified")  # to freeze
@pytest.mark.timeout(300)  # the first case waits for the whole table
@pytest.mark.parametrize("case", fault_table.all_cases(), ids=lambda case: "-".join(vars(case).values()))
def test_fault_in_one_helper_costs_only_its_run(table: dict[Case, Found], case: Case) -> None:
    found = table.pop(case, None) or fault_table.try_row((case.kind, case.role), case)[0]  # a second try is a fresh one
    assert found.outcome in case.expected, found
    assert found.outcome != FAILED or found.reason, found
    assert found.seconds < WALL + MARGIN, found
    assert found.next_outcome == DONE or (case.moment == "after" and found.outcome == DONE), found  # it cost one run
    assert found.next_seconds < WALL + MARGIN, found
    assert not found.left, found


@pytest.fixture
def nothing_left() -> Iterator[None]:
    with host.as_before():
        yield


def test_faults_page_has_a_row_for_every_case() -> None:
    text = fault_table.PAGE.read_text(encoding="utf-8")
    for case in fault_table.all_cases():
        row = next(line for line in text.splitlines() if line.startswith(f"| {case.kind} | {case.role} | {case.way} |"))
        column = row.split(" | ")[3 + fault_table.MOMENTS.index(case.moment)]
        assert column.strip(" |").startswith(" or ".join(sorted(case.expected))), row


@pytest.mark.usefixtures("nothing_left")
def test_guest_stopped_in_its_making_does_not_hold_others() -> None:
    box = stockade.Runner(stockade.Policy(limits={"wall_time": WALL}), backend="native", warm=True)
    box.run("print(0)")
    workers = [pid for pid in host.descendants(faults.wait_for("init of the zygote")) if faults.is_init(pid)]
    time.sleep(0.3)  # each worker has its guest by then
    before, stopped = faults.children(*workers), set[int]()

    def strike() -> None:
        until = time.monotonic() + 2
        while not stopped and time.monotonic() < until:
            stopped.update(faults.children(*workers) - before)
        for pid in stopped:
            faults.stop(pid)

    striker = threading.Thread(target=strike)
    striker.start()
    box.run("print(1)")  # after it, its worker makes the next guest
    striker.join()
    assert stopped
    for _ in range(3):
        begin = time.monotonic()
        box.run("print(2)")
        assert time.monotonic() - begin < WALL + MARGIN


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("warm", [False, True])
def test_warden_stopped_during_endless_run_ends_it(warm: bool) -> None:
    box = stockade.Runner(
        stockade.Policy(limits={"wall_time": "unlimited", "cpu_time": "unlimited"}), backend="native", warm=warm
    )
    assert box.run("1").ok
    threading.Timer(0.5, lambda: faults.stop(faults.wait_for("warden"))).start()
    begin = time.monotonic()
    result = box.run("while True: pass")
    assert result.outcome is Outcome.SANDBOX_FAILED and "did not answer" in result.summary()
    assert time.monotonic() - begin < 4
    assert box.run("1").ok  # on a new warden, which removes the groups of the old one


@pytest.mark.needs("root")  # to freeze other processes
@pytest.mark.needs("cgroup-freezer-v1")
@pytest.mark.parametrize("role", ["warden", "init", "first process"])
def test_process_held_by_freezer_of_cgroup1_costs_one_run(role: str) -> None:
    """Such a process does not die of SIGKILL before it is thawed."""
    freezer = faults.Freezer(version=1)
    with host.as_before():
        box = stockade.Runner(stockade.Policy(limits={"wall_time": WALL}), backend="native", warm=False)
        assert box.run("1").ok
        time.sleep(0.2)  # no run follows at once, so the warden makes no instance for one
        threading.Timer(0.4, lambda: freezer.freeze(faults.wait_for(role))).start()
        begin = time.monotonic()
        result = box.run("import time; time.sleep(0.8)")
        assert time.monotonic() - begin < WALL + MARGIN
        assert result.outcome is Outcome.SANDBOX_FAILED and "freez" in result.summary().replace("frozen", "freez")
        assert box.run("1").ok
        freezer.close()
        assert box.run("1").ok


@pytest.mark.needs("root")  # to freeze other processes
@pytest.mark.needs("cgroup-freezer-v1")
def test_collector_frozen_by_cgroup1_does_not_hold_the_warden() -> None:
    freezer = faults.Freezer(version=1)
    with host.as_before():
        box = stockade.Runner(stockade.Policy(limits={"wall_time": WALL}), backend="native", warm=False)
        assert box.run("1").ok
        with box.stream(fault_table.WRITES, artifacts=["*.txt"]) as run:
            freezer.freeze(faults.wait_for("collector"))  # it waits, since nobody reads its records
            begin = time.monotonic()
            for _ in run:
                pass
        result = run.result
        assert box.run("1").ok and time.monotonic() - begin < WALL + MARGIN
        assert result.ok and "freez" in (result.artifacts_error or "").replace("frozen", "freez")
        freezer.close()


@pytest.mark.usefixtures("nothing_left")
def test_wardens_killed_under_load_lose_only_begun_runs() -> None:
    box = stockade.Runner(backend="native", warm=False)
    assert box.run("1").ok
    done, lost = [], []
    callers = 16  # so many that at each kill some run has not begun
    end = time.monotonic() + 6

    def work(name: int) -> None:
        while time.monotonic() < end:
            result = box.run(f"print({name})")
            (done if result.ok else lost).append(result.summary())

    with ThreadPoolExecutor(callers) as pool:
        working = [pool.submit(work, number) for number in range(callers)]
        kills = 0
        while time.monotonic() < end - 1.5:
            time.sleep(1.2)
            os.kill(faults.wait_for("warden"), signal.SIGKILL)
            kills += 1
        for each in working:
            each.result()
    assert kills >= 3 and len(done) > callers
    assert len(lost) < callers * kills, (kills, len(lost))  # as many as there were before anything was sent again
    assert all("in the middle of the run" in reason for reason in lost), lost
    assert box.run("1").ok  # on a new warden, which removes the groups of the old one


@pytest.mark.usefixtures("nothing_left")
def test_launch_not_accepted_goes_to_new_warden() -> None:
    box = stockade.Runner(backend="native", warm=False)
    assert box.run("1").ok
    for _ in range(3):
        pid = faults.wait_for("warden")
        faults.stop(pid)  # so it cannot accept anything
        threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
        assert box.run("print(2)").ok


_WARM = ("warm guest", "worker", "zygote", "init of the zygote", "spawner of the zygote")


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("role", "warm"), [*((role, True) for role in _WARM), *((role, False) for role in ("init", "spawner"))]
)
def test_sandbox_killed_before_program_begins_costs_no_run(role: str, warm: bool) -> None:
    """The guest's process is stopped, so it has the launch when the helper dies, and has certainly not begun."""
    box = stockade.Runner(backend="native", warm=warm)
    assert box.run("print(1)").ok
    time.sleep(0.2)
    victim = faults.wait_for(role)
    faults.stop(faults.wait_for("warm guest" if warm else "first process"))
    striker = threading.Timer(0.2, faults.kill, (victim,))
    striker.start()
    result = box.run("print(input())", stdin="2\n")
    striker.join()
    assert result.ok and result.stdout == "2\n", result
    assert box.run("print(3)").ok


@pytest.mark.usefixtures("nothing_left")
def test_run_whose_warm_process_is_found_dead_starts_again() -> None:
    """Its worker is stopped, so the run is handed to a process that is dead already, as while a zygote is dying."""
    box = stockade.Runner(backend="native", warm=True)
    assert box.run("print(1)").ok
    time.sleep(0.2)
    worker, guest = faults.wait_for("worker"), faults.wait_for("warm guest")
    faults.stop(worker)
    faults.kill(guest)
    threading.Timer(0.2, os.kill, (worker, signal.SIGCONT)).start()
    result = box.run("print(input())", stdin="2\n")
    assert result.ok and result.stdout == "2\n", result
