import pytest

from stockade.core.launch import ProxyOrder
from stockade.runs import network_account
from stockade.runs.result import NetworkRefusal, NetworkTarget, NetworkUse
from stockade.warden.proxy.account import RECEIVED, SENT, Account, Refused

ORDER = ProxyOrder(
    allow=(), connections=1, requests=300, sent=100, received=None, rate=None, connect_seconds=1.0, idle_seconds=1.0
)


def test_account_reads_back_as_the_use_of_the_network():
    account = Account(ORDER)
    for _ in range(3):
        account.admit()
    name = account.accept("a.org:80")
    account.carry(name, SENT, 30)
    account.carry(name, RECEIVED, 4000)
    account.refuse(Refused(403, "no\tway\n\x1b[31m é", "b.org:80"))
    account.refuse(Refused(403, "no\tway\n\x1b[31m é", "b.org:80"))
    assert network_account.read(account.encode(), "") == NetworkUse(
        requests=3,
        refused=2,
        sent=30,
        received=4000,
        targets=(NetworkTarget("a.org:80", 1, 30, 4000),),
        refusals=(NetworkRefusal("b.org:80", "no?way??[31m ?", 2),),
    )


def test_account_of_many_targets_and_refusals_stays_short():
    account = Account(ORDER)
    for number in range(300):
        account.admit()
        account.carry(account.accept(f"a{number}.org:80"), RECEIVED, 1)
        account.refuse(Refused(403, f"reason {number}" * 1000, "x" * 1000))
    use = network_account.read(account.encode(), "")
    assert use is not None and use.error is None
    assert (use.requests, use.refused, use.received, use.unnamed) == (300, 300, 300, 236)
    assert len(use.targets) == 65 and use.targets[-1] == NetworkTarget("", 236, 0, 236)
    assert len(account.encode()) < 1 << 17


def test_bounds_refuse_the_request_and_the_byte_beyond():
    account = Account(ORDER.adding(requests=2))
    account.admit()
    name = account.accept("a.org:80")
    account.carry(name, SENT, 100)
    with pytest.raises(Refused, match=r"100 bytes of network\.sent"):
        account.carry(name, SENT, 1)
    with pytest.raises(Refused, match=r"100 bytes of network\.sent"):
        account.admit()
    with pytest.raises(Refused, match=r"2 requests, the most that network\.requests allows"):
        account.admit()
    assert account.exhausted(1) and not account.exhausted(2)


@pytest.mark.parametrize(
    "account",
    [
        b"x", b"all\t1\t1\t1\t1\nunnamed\nend", b"all\t1\t1\t1\t1", b"all\t1\t1\t1\t1\nunnamed\t0", b"all\t1\t1\t1\nunnamed\t0\nend", b"\xff\nend",
        b"all\t1\t1\t1\t-1\nunnamed\t0\nend", b"all\t1\t1\t1\t1\nto\ta\t1\t1\nunnamed\t0\nend",
        b"all\t1\t1\t1\t1\nrefused\ta\t1\tb\x1b\nunnamed\t0\nend", b"all\t1\t1\t1\t1\nwhat\ta\nunnamed\t0\nend",
        b"all\t1\t1\t1\t1\n" + b"to\ta\t1\t1\t1\n" * 300 + b"unnamed\t0\nend",
    ],
)  # fmt: skip
def test_malformed_account_is_an_error(account):
    assert network_account.read(account, "") == NetworkUse(error="the proxy's account cannot be read")
    assert network_account.read(account, "why") == NetworkUse(error="why")
