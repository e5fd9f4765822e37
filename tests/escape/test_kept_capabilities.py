"""A kept capability gives only the right that it names. The attacks on privileges are refused as without it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import stockade
from stockade.attacks import corpus, trial
from stockade.attacks.corpus import Attack
from stockade.attacks.trial import Verdict
from stockade.policy import capabilities

pytestmark = pytest.mark.needs("native")

_KEPT = tuple(capabilities.KEPT)
_ATTACKS = [each for each in corpus.load() if each.guarantee == "privileges" or each.id == "network/raw_socket"]
_LOWEST = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_BIND = (
    "import socket\nfor family, place in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):\n"
    "    with socket.socket(family) as each:\n        try: each.bind((place, 80)); print('bound')\n"
    "        except PermissionError: print('refused')\n"
    "status = dict(line.split(':\\t') for line in open('/proc/self/status') if line.startswith('Cap'))\n"
    "print({name: int(value, 16) for name, value in status.items()})"
)
_EMPTY = "{'CapInh': 0, 'CapPrm': 0, 'CapEff': 0, 'CapBnd': 0, 'CapAmb': 0}"


def _keeping(attack: Attack) -> Attack:
    security = {**attack.policy.get("security", {}), "capabilities": list(_KEPT)}
    return dataclasses.replace(attack, policy={**attack.policy, "security": security})


@pytest.mark.parametrize(
    "attack", [pytest.param(each, id=each.id, marks=[pytest.mark.needs(*each.needs)]) for each in _ATTACKS]
)
def test_kept_capability_opens_no_attack(attack: Attack) -> None:
    tried = trial.attempt(_keeping(attack))
    assert tried.verdict is Verdict.REFUSED, tried.confined.what if tried.confined else tried.reason


def test_low_ports_open_only_with_capability() -> None:
    keeping = stockade.Policy(security={"capabilities": ["CAP_NET_BIND_SERVICE"]})
    before = _LOWEST.read_text()
    printed = [stockade.run(_BIND, policy=policy, backend="native").stdout for policy in (None, keeping, None)]
    refused, bound = f"refused\nrefused\n{_EMPTY}\n", f"bound\nbound\n{_EMPTY}\n"
    assert printed == [refused, bound, refused]
    assert _LOWEST.read_text() == before


def test_port_setting_cannot_be_changed_by_guest() -> None:
    keeping = stockade.Policy(security={"capabilities": ["CAP_NET_BIND_SERVICE"]})
    code = "try: open('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'w')\nexcept OSError as e: print(e.errno)"
    assert stockade.run(code, policy=keeping, backend="native").stdout == "30\n"
