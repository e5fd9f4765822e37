"""The rules of the second pass name what exists, and leave out what they say and nothing else."""

import inspect
from pathlib import Path

import pytest

from stockade.policy.guarantees import Guarantee
from stockade.testing import BackendContract
from tests.contract import test_backends
from tests.support import second_pass

ATTACKS = {attack.id: attack for attack in second_pass.corpus.load()}
CONTRACT_PARTS = {part.__module__ for part in inspect.getmro(BackendContract) if part.__module__ != "builtins"}


def test_rules_name_guarantees_modules_and_classes_that_exist():
    assert set(map(str, Guarantee)) >= second_pass.SAME_AS_NATIVE | second_pass.SAME_WHEN_WARM
    assert all(Path(name).is_file() for name in second_pass.ABOVE_THE_WARDEN)
    assert second_pass.USER_CHANGES < CONTRACT_PARTS
    assert all(hasattr(test_backends, name) for name in second_pass.OTHER_BACKENDS)
    assert {*second_pass.chosen().values(), *second_pass.IN_THE_CALLERS_NETWORK} <= set(ATTACKS)


def test_suite_of_native_and_process_runs_whole():
    assert not {"TestNative", "TestProcess"} & {*second_pass.OTHER_BACKENDS}


@pytest.mark.parametrize(
    ("module", "attack", "backend", "runs"),
    [
        ("tests/escape/test_attacks.py", "memory/list", None, True),
        ("tests/escape/test_attacks.py", "memory/list", "process", True),
        ("tests/escape/test_attacks.py", "memory/list", "bubblewrap", False),
        ("tests/escape/test_attacks.py", "cpu_time/loop", "bubblewrap", True),
        ("tests/escape/test_attacks.py", "process_view/neighbour", "bubblewrap", True),
        ("tests/escape/test_warm_attacks.py", "memory/list", None, True),
        ("tests/escape/test_warm_attacks.py", "output/flood", None, False),
        ("tests/escape/test_attacks.py", "network/redirect", None, False),
        ("tests/escape/test_attacks.py", "network/straight_past_the_proxy", None, True),
        ("tests/escape/test_attacks.py", "network/tcp", None, True),
        ("tests/system/test_survival.py", None, None, True),
        ("tests/system/test_hooks.py", None, None, False),
        ("tests/contract/test_programs.py", None, "oci", False),
        ("tests/contract/test_programs.py", None, "process", True),
    ],
)
def test_second_pass_runs_what_the_user_changes(module, attack, backend, runs):
    params = {"backend": backend} if backend else {}
    if attack:
        params["attack"] = ATTACKS[attack]
    assert (second_pass.reason(module, params) == "") == runs
