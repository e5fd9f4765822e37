"""Mutants of the warm path: with a protection between runs switched off, the test for it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import tree
from tests.mutants.protection import Edit, Protection

pytestmark = [pytest.mark.needs("native"), pytest.mark.needs("root")]

_SECONDS = 120
_FAILED = 1  # pytest's exit status if tests ran and one of them failed
_WORKER, _NETWORK, _POOL = "warden/warm/worker.py", "warden/warm/network.py", "warden/warm/worker_pool.py"
_MOUNTS, _GUEST = "warden/warm/guest_mounts.py", "warden/warm/guest.py"
_INTERPRETER, _AGENT = "warden/warm/interpreter.py", "languages/agents/python_zygote.py"
PROTECTIONS: dict[str, tuple[tuple[Edit, ...], str]] = {
    "a network with traces is replaced": (
        ((_NETWORK, "if self._read() == self._before:", "if True:"),),
        "test_warm_workers.py::test_next_run_finds_no_trace[connection that lingers]",
    ),
    "flow labels count as traces": (
        ((_NETWORK, ', "net/ip6_flowlabel")', ")"),),
        "test_warm_workers.py::test_next_run_finds_no_trace[flow label]",
    ),
    "fresh mounts for each guest": (
        ((_MOUNTS, "        libc.setns(self._base_namespace, processes.NEW_NS)\n        self._make()\n", "        if self._expected != self.source_name:\n            libc.setns(self._base_namespace, processes.NEW_NS)\n            self._make()\n"),),
        "test_warm_workers.py::test_next_run_finds_no_trace[file in the workspace]",
    ),
    "an IPC namespace for each guest": (
        (("warden/warm/guest_setup.py", "_C.unshare, processes.NEW_IPC", "_C.unshare, 0"),),
        "test_warm_workers.py::test_next_run_finds_no_trace[segment]",
    ),
    "all processes end between two guests": (
        ((_WORKER, "        descendants.end_namespace()\n", ""), (_POOL, "if tasks is not None and tasks > 1:", "if False:")),
        "test_warm_workers.py::test_next_run_finds_no_trace[process]",
    ),
    "process numbers start again": (
        ((_WORKER, "        self._stage.forget_pids()\n", ""),),
        "test_warm_workers.py::test_next_run_finds_no_trace[numbers of processes]",
    ),
    "descriptors are closed": (
        ((_GUEST, "            processes.close_all_but((*STREAMS, *self._own))\n", ""),),
        "test_warm_workers.py::test_run_has_only_its_streams_open",
    ),
    "a network for each worker": (
        (("warden/warm/zygote.py", "processes.NEW_NS | processes.NEW_NET |", "processes.NEW_NS |"),),
        "test_warm_workers.py::test_runs_at_once_share_nothing[port]",
    ),
    "a uid for each worker": (
        ((_INTERPRETER, "[*enumerate(self._mapped, 1)]", "[(1, uid) for uid in self._mapped]"),),
        "test_warm_workers.py::test_runs_at_once_have_different_uids",
    ),
    "the visible usage of a worker is frozen": (
        (("backends/native/warm.py", ', ("still", MOUNT_TARGETS[0])', ""),),
        "test_warm_workers.py::test_usage_of_earlier_runs_is_not_visible",
    ),
    "a worker with residual memory is replaced": (
        ((_POOL, "if worker.has_residual_memory:", "if False:"),),
        "test_warm_workers.py::test_memory_left_charged_counts_for_no_run",
    ),
    "lifted limits are restored": (
        (("linux/cgroups/group.py", "if self._is_unthrottled and self._limits is not None:", "if False:"),),
        "test_warm_workers.py::test_limit_lifted_to_end_a_run_holds_again",
    ),
    "only the worker's own tasks are subtracted": (
        (("linux/cgroups/group.py", "self._least_tasks = own_tasks + 1", "self._least_tasks = 3"),),
        "test_warm_workers.py::test_tasks_of_one_run_count_for_no_other",
    ),
    "an own filter refuses warm runs": (
        (("backends/native/warm.py", "policy.security.syscalls_file is not None", "False"),),
        "test_warm_workers.py::test_keys_under_own_filter_are_not_shared",
    ),
    "process numbers differ in each guest": (
        ((_AGENT, "\nrenumber()\n", "\n"),),
        "test_warm_start.py::test_random_numbers_differ_between_runs[OpenSSL]",
    ),
    "shared memory is refused": (
        ((_AGENT, "return any(b", "return False and any(b"),),
        "test_warm_start.py::test_shared_memory_in_zygote_is_refused[anonymous]",
    ),
    "variables that load code are refused": (
        (("backends/native/warm.py", '_BRINGS_CODE = ("PYTHON", "RUBY", "GEM_", "BUNDLE_", "LD_", "GCONV_PATH", "HOME")', '_BRINGS_CODE = ("-",)'),),
        "test_warm_start.py::test_startup_code_runs_inside_sandbox",
    ),
}  # fmt: skip


def run_tests(edits: tuple[Edit, ...], *tests: str) -> subprocess.CompletedProcess[str]:
    folder = Path(__file__).parent
    with tree.mutated([Protection("", edits, ())]) as place:
        return subprocess.run(
            [*tree.APART, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"{folder}/{test}" for test in tests)],
            env={**os.environ, "PYTHONPATH": f"{place / 'src'}:{folder.parents[1]}", "TMPDIR": str(place / "tmp")},
            cwd=folder.parents[1], capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip


@pytest.mark.parametrize(("edits", "test"), PROTECTIONS.values(), ids=PROTECTIONS)
def test_mutant_fails_the_test_for_it(edits: tuple[Edit, ...], test: str) -> None:
    done = run_tests(edits, test)
    assert done.returncode == _FAILED, done.stdout + done.stderr
    assert "1 failed" in done.stdout


def test_unchanged_source_passes_all_tests() -> None:
    done = run_tests((), *(test for _, test in PROTECTIONS.values()))
    assert done.returncode == 0, done.stdout + done.stderr
