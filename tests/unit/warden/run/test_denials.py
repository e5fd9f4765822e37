"""The warden's answers at a listener. The tests stand in for the kernel."""

import errno
import os
from types import SimpleNamespace

import pytest

from stockade.linux.seccomp import notify
from stockade.linux.seccomp.notify import Notification
from stockade.warden import loop
from stockade.warden.run import denials
from stockade.warden.run.denials import BUDGET, Denials


class Loop:
    """Records the watched descriptors and their callbacks."""

    def __init__(self):
        self.callbacks = {}

    def watch(self, fd, _events, callback):
        self.callbacks[fd] = callback

    def forget(self, fd):
        del self.callbacks[fd]


@pytest.fixture
def kernel(monkeypatch):
    """Stand in for the kernel: hold the calls to receive, and record the answers."""

    found = SimpleNamespace(calls=[], answers=[], listener_alive=True)

    def receive(_listener):
        number = found.calls.pop(0)
        return None if number is None else Notification(id=1, pid=2, nr=number, audit=0, args=(7, 0, 0, 0, 0, 0))

    def refuse(_listener, call, code):
        found.answers.append((call.nr, code))
        return found.listener_alive

    monkeypatch.setattr(notify, "receive", receive)
    monkeypatch.setattr(notify, "refuse", refuse)
    return found


def started(errnos=None):
    events = Loop()
    listener = os.open("/dev/null", os.O_RDONLY)
    made = Denials(events, errnos or {})
    made.open(listener)
    return made, events, listener


def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_each_turn_answers_one_call(kernel):
    made, events, listener = started({41: errno.EAFNOSUPPORT})
    kernel.calls = [165, 41, 165]
    for left in (2, 1, 0):
        events.callbacks[listener](loop.READ)
        assert len(kernel.calls) == left
    assert kernel.answers == [(165, errno.EPERM), (41, errno.EAFNOSUPPORT), (165, errno.EPERM)]
    first = (7, 0, 0, 0, 0, 0)
    assert made.report() == {"denials": [(165, 2, first), (41, 1, first)], "denials_truncated": False}
    made.close()
    assert not is_open(listener) and not events.callbacks


def test_spent_budget_closes_listener(kernel):
    made, events, listener = started()
    kernel.calls = [165] * BUDGET
    while listener in events.callbacks:
        events.callbacks[listener](loop.READ)
    assert not kernel.calls and not is_open(listener)
    assert made.report()["denials_truncated"]
    assert made.report()["denials"][0][:2] == (165, BUDGET)
    made.close()  # a second close does nothing


def test_interrupted_calls_use_budget_only(kernel):
    made, events, listener = started()
    kernel.calls = [None] * (BUDGET - 1) + [165]
    kernel.listener_alive = False
    while listener in events.callbacks:
        events.callbacks[listener](loop.READ)
    assert made.report() == {"denials": [], "denials_truncated": True}


def test_hang_up_closes_listener(kernel):
    made, events, listener = started()
    events.callbacks[listener](loop.HUNG_UP)
    assert not events.callbacks and not is_open(listener)
    assert not made.report()["denials_truncated"]


def test_missing_listener_watches_nothing():
    events = Loop()
    made = Denials(events, {})
    made.open(-1)
    made.close()
    assert not events.callbacks and made.report() == {"denials": [], "denials_truncated": False}


def test_denials_module_imports_little():
    names = {name for name in vars(denials) if not name.startswith("_")}
    assert not names & {"dataclasses", "enum", "typing"}
