import socket
import threading

import pytest

from stockade.client.broker import Broker as Caller
from stockade.core import targets
from stockade.runs.secret import Secret, placeholder
from stockade.warden.proxy import heads
from stockade.warden.proxy.account import Refused
from stockade.warden.proxy.broker import MOST_QUESTIONS, Broker
from stockade.warden.proxy.vault import Vault

INSIDE = placeholder("KEY").encode()
VAULT = Vault(
    [
        ("KEY", placeholder("KEY"), "sk-1", ["api.example.com:443"]),
        ("KEY_2", placeholder("KEY_2"), "sk-2", ["b.example.com:443"]),
    ]
)
API = targets.parse("api.example.com:443")


def test_gateway_request_is_written_anew_with_the_value():
    head = (
        b"POST /api.example.com/v1?a=b HTTP/1.1\r\nHost: 127.0.0.1:3128\r\nAuthorization: Bearer "
        + INSIDE
        + b"\r\nContent-Length: 2"
    )
    found = heads.parse(head, VAULT)
    assert (str(found.target), found.secure, found.length) == ("api.example.com:443", True, 2)
    assert found.head == (
        b"POST /v1?a=b HTTP/1.1\r\nHost: api.example.com\r\nauthorization: Bearer sk-1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    "path",
    [
        b"/",
        b"//api.example.com/",
        b"/api.example.com:80/",
        b"/api.example.com./",
        b"/b.example.org/",
        b"/user@api.example.com/",
        b"/API.example.com%2f/",
        b"/api.example.com#/",
    ],
)
def test_gateway_path_without_a_host_of_a_secret_is_refused(path):
    with pytest.raises(Refused):
        heads.parse(b"GET " + path + b" HTTP/1.1\r\nHost: x", VAULT)


@pytest.mark.parametrize(
    "value",
    [
        INSIDE + b"x",
        b"x" + INSIDE,
        INSIDE + b" x",
        b"a b " + INSIDE,
        b"Bearer  " + INSIDE,
        INSIDE + b", " + INSIDE,
        placeholder("KEY_2").encode(),
    ],
)
def test_placeholder_amid_text_or_for_others_is_refused(value):
    with pytest.raises(Refused) as caught:
        VAULT.filled(b"authorization", value, API, by_gateway=True)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize("field", [b"X-Request-Id", b"Idempotency-Key", b"Origin", b"Cookie", b"Referer"])
def test_header_that_servers_repeat_takes_no_value(field):
    with pytest.raises(Refused, match="goes into one of these header fields"):
        heads.parse(b"GET /api.example.com/ HTTP/1.1\r\nHost: x\r\n" + field + b": " + INSIDE, VAULT)


def test_value_never_reaches_framing_nor_a_repeated_head():
    pin = Vault([("PIN", placeholder("PIN"), "3", ["api.example.com:443"])])
    inside = placeholder("PIN").encode()
    with pytest.raises(Refused, match="Content-Length must be one number"):
        heads.parse(b"POST /api.example.com/ HTTP/1.1\r\nHost: x\r\nContent-Length: " + inside, pin)
    found = heads.parse(b"GET /api.example.com/ HTTP/1.1\r\nHost: x\r\n3: a\r\nConnection: " + inside, pin)
    assert b"3: a" in found.head
    with pytest.raises(Refused, match="TRACE"):
        heads.parse(b"TRACE /api.example.com/ HTTP/1.1\r\nHost: x\r\nAuthorization: " + inside, pin)


def test_authorities_that_cannot_be_read_are_no_others(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    with pytest.raises(OSError):
        Vault([])


def test_value_is_set_in_for_its_own_hosts_by_the_gateway_alone():
    assert VAULT.filled(b"authorization", INSIDE, API, by_gateway=True) == b"sk-1"
    assert VAULT.filled(b"authorization", b"Bearer " + INSIDE, API, by_gateway=True) == b"Bearer sk-1"
    with pytest.raises(Refused):
        VAULT.filled(b"authorization", INSIDE, API, by_gateway=False)
    assert "sk-1" not in repr(vars(VAULT))


@pytest.fixture
def connected():
    """Return a function that joins a caller with secrets and a hook, and the proxy's end."""
    ends = []

    def connect(on_ask, seconds=5.0, **secrets):
        caller = Caller(secrets, on_ask)
        ends.append(socket.fromfd(caller.theirs.fileno(), socket.AF_UNIX, socket.SOCK_STREAM))
        return caller, Broker(ends[-1], seconds)

    yield connect
    for each in ends:
        each.close()


def test_broker_hands_over_secrets_and_answers(connected):
    asked = []
    caller, broker = connected(
        lambda target: asked.append(target) or target == "a.org:1", KEY=Secret("x", hosts=["b.org"])
    )
    with caller:
        assert broker.secrets() == [("KEY", placeholder("KEY"), "x", ["b.org:443"])]
        for text, answer in [("a.org:1", True), ("b.org:1", False), ("a.org:1", True)]:
            assert broker.allows(targets.parse(text)) is answer
    assert asked == ["a.org:1", "b.org:1"]
    assert broker.allows(targets.parse("c.org:1")) is False


def test_broker_asks_a_bounded_number_of_questions(connected):
    asked = []
    caller, broker = connected(lambda target: not asked.append(target))
    with caller:
        broker.secrets()
        answers = [broker.allows(targets.parse(f"a{number}.org:1")) for number in range(MOST_QUESTIONS + 9)]
    assert sum(answers) == MOST_QUESTIONS == len(asked)


def test_late_answer_is_not_taken_for_the_next_question(connected):
    gate = threading.Event()
    caller, broker = connected(lambda target: target != "slow.org:1" or gate.wait(5), seconds=0.1)
    with caller:
        broker.secrets()
        assert broker.allows(targets.parse("slow.org:1")) is False
        gate.set()
        broker._seconds = 5.0
        assert broker.allows(targets.parse("other.org:1")) is True
        assert broker.allows(targets.parse("slow.org:1")) is False
