"""Choose the tests of the second pass over what touches the kernel, as an ordinary user. ``STOCKADE_PASS=second`` asks for it.

The first pass, as root, runs every test. A test needs the second pass too if the user changes the code that runs: another
identity, no control groups, no rights over other processes. ``native`` stands for all backends with namespaces, and
``process`` for those without, so these two run every test again. The rules below leave out a test of another backend where
the user changes nothing, or changes only what these two show. ``make test-user`` runs all of it, and record 92 has the
reasons.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from stockade.attacks import corpus
from stockade.attacks.internet import trials
from stockade.policy.guarantees import Guarantee

SECOND = os.environ.get("STOCKADE_PASS") == "second"

SAME_AS_NATIVE = frozenset(
    ("cpu_time", "wall_time", "memory", "output", "open_files", "file_size", "stack", "address_space", "data")
) | {"syscalls", "environment"}
"""Guarantees that the warden, or the process that becomes the guest, holds by the same code under each engine."""
SAME_WHEN_WARM = SAME_AS_NATIVE - {"cpu_time", "memory"} | {"network"}
"""A warm guest is confined by the code of a cold one. Its accounts differ: a worker's control group holds the next guest."""
OTHER_BACKENDS = ("TestWarm", "TestBubblewrap", "TestOci", "TestLandlock", "TestFirejail")
USER_CHANGES = frozenset(f"stockade.testing.{name}" for name in ("limits", "files", "workspaces", "inside", "receipts"))
"""Parts of the conformance suite whose subject depends on the user; the others are about streams, values and order."""
IN_THE_CALLERS_NETWORK = frozenset(("network/straight_past_the_proxy", "network/proxy_of_another"))
"""Attacks in the small internet that go around the proxy. The others send it bytes, which it judges alike for every user."""
ABOVE_THE_WARDEN = {
    "tests/system/test_async_sandboxes.py": "the asyncio twin of a sandbox is code of the caller",
    "tests/system/test_batch_compiled.py": "a batch judges results, whoever made them",
    "tests/system/test_batch_isolated.py": "a batch judges results, whoever made them",
    "tests/system/test_call.py": "arguments and values are data of the caller",
    "tests/system/test_embedded_worker.py": "a worker is a sandbox like any other; the rest is code of the caller",
    "tests/system/test_engines.py": "the caller finds an engine and asks for its version",
    "tests/system/test_hooks.py": "hooks run in the caller",
    "tests/system/test_languages.py": "native and process run every language again",
    "tests/system/test_launch_template.py": "a template is bytes that caller and warden remember",
    "tests/system/test_mcp.py": "the server is a caller like any other",
    "tests/system/test_metered.py": "a metered run is a native run whose command is the interpreter",
    "tests/system/test_monitor.py": "alerts are made in hooks, which run in the caller",
    "tests/system/test_operations.py": "an agent counts inside the interpreter",
    "tests/system/test_results.py": "the verdict is computed from a report",
    "tests/system/test_sandbox_pool.py": "a pool is a list of the caller's, and sandboxes run again",
    "tests/system/test_service_judge0.py": "the service runs again; this interface reads and writes its queue",
    "tests/system/test_service_schema.py": "the service runs again; a schema is the same for every user",
    "tests/system/test_streaming.py": "the warden passes bytes on alike; processes left behind are looked for elsewhere",
    "tests/system/test_tracing.py": "a span is made in hooks, which run in the caller",
    "tests/system/test_warm_ruby.py": "the warm interpreters of Python run again, and a zygote starts alike in each language",
}
"""Modules of which nothing depends on the user, with the reason."""
PROGRAMS = ("native", "process")
"""Backends on which the real programs run again."""


@cache
def chosen() -> dict[str, str]:
    """Return one attack on each guarantee: the one that runs where the others are left out."""
    return {attack.guarantee: attack.id for attack in corpus.load()} | {Guarantee.CPU_TIME: "cpu_time/loop"}


def left_out(item: pytest.Item) -> str:
    """Return the reason why the second pass does not run ``item``, or an empty text."""
    if any("unprivileged" in mark.args for mark in item.iter_markers("needs")):
        return ""  # the first pass cannot run it
    arguments = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if item.nodeid.startswith("tests/contract/test_backends.py") and isinstance(item, pytest.Function):
        return _of_contract(item, arguments)
    return reason(item.nodeid.split("::")[0], arguments)


def reason(module: str, arguments: Mapping[str, Any]) -> str:
    """Return the reason why the second pass leaves out a test with these arguments, or an empty text."""
    if module in ABOVE_THE_WARDEN:
        return ABOVE_THE_WARDEN[module]
    if module == "tests/contract/test_programs.py" and arguments.get("backend", "native") not in PROGRAMS:
        return "the program runs again under a backend with namespaces and under one without"
    attack = arguments.get("attack")
    if not isinstance(attack, corpus.Attack) or attack.id == chosen()[attack.guarantee]:
        return ""
    if trials.STAGE in attack.stage and attack.id not in IN_THE_CALLERS_NETWORK:
        return "the proxy judges bytes, and tests/escape/test_network.py shows its confinement as this user"
    if module == "tests/escape/test_warm_attacks.py" and attack.guarantee in SAME_WHEN_WARM:
        return "a cold guest meets the same code as this user"
    if arguments.get("backend") in {"bubblewrap", "oci"} and attack.guarantee in SAME_AS_NATIVE:
        return "native and process meet the same code as this user"
    return ""


def _of_contract(item: pytest.Function, arguments: Mapping[str, Any]) -> str:
    if arguments.get("run") == "asyncio":
        return "both drivers send the same messages, and the blocking one runs again"
    if item.cls is None or item.cls.__name__ not in OTHER_BACKENDS or item.function.__module__ in USER_CHANGES:
        return ""
    return "the user changes nothing here that native and process do not show"
