"""The bounded way out, with the programs that people use, through the library, streams, batches and the command line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.internet import OTHER, WEB, Internet

import stockade
from stockade import Result
from stockade.backends import registry

pytestmark = pytest.mark.needs("native", "small-internet", "ruby", "gem", "node", "npm")

_ALLOW = ["example.org:80", "example.org:443", "*.example.org:8443"]


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    """Return a caller in a small internet, whose servers have a repository and an index of packages."""
    folder = tmp_path_factory.mktemp("internet")
    _make_repository(folder / "files")
    _make_index(folder / "files" / "simple")
    _make_registry(folder / "files")
    _make_gems(folder / "files" / "gems")
    net = Internet(folder)
    net.ask("names", **{"example.org": [[WEB]], "a.example.org": [[WEB]], "evil.example.net": [[OTHER]]})
    yield net
    net.close()


def _make_repository(files: Path) -> None:
    source = files / "source"
    source.mkdir(parents=True)
    (source / "told.txt").write_text("from a repository\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-C", str(source)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"], ["update-server-info"]):
        subprocess.run([*git, *words], check=True)


def _make_index(simple: Path) -> None:
    (simple / "told").mkdir(parents=True)
    wheel = "told-1.0-py3-none-any.whl"
    with zipfile.ZipFile(simple / "told" / wheel, "w") as file:
        file.writestr("told.py", "WORD = 'from an index'\n")
        file.writestr("told-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: told\nVersion: 1.0\n")
        file.writestr("told-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("told-1.0.dist-info/RECORD", "")
    (simple / "told" / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')


def _make_registry(files: Path) -> None:
    (files / "npm").mkdir()
    content = json.dumps({"name": "told", "version": "1.0.0", "main": "told.json"}).encode()
    with tarfile.open(files / "told.tgz", "w:gz") as file:
        for name, data in (("package/package.json", content), ("package/told.json", b'"from a registry"')):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            file.addfile(entry, io.BytesIO(data))
    version = {"name": "told", "version": "1.0.0", "dist": {"tarball": "http://example.org/files/told.tgz"}}
    told = {"name": "told", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (files / "npm" / "told").write_text(json.dumps(told))


def _make_gems(gems: Path) -> None:
    gems.mkdir()
    code = """
require "rubygems"
File.binwrite("latest_specs.4.8.gz", Gem::Util.gzip(Marshal.dump([["told", Gem::Version.new("1.0"), "ruby"]])))
"""
    subprocess.run(["ruby", "-e", code], cwd=gems, check=True)


def _run(internet: Internet, code: str, allow: list[str] | None = None, **options: Any) -> Result:
    network = {"allow": _ALLOW if allow is None else allow}
    answer = internet.ask("run", code=code, network=network, files={"ca.pem": internet.authority}, **options)
    assert "error" not in answer, answer
    return Result.from_dict(answer["result"])


def test_urllib_reaches_listed_names_over_http_and_tls(internet: Internet) -> None:
    code = """
import json, ssl, urllib.request as u
context = ssl.create_default_context(cafile="ca.pem")
for url in ("http://example.org/x?y=1", "https://example.org/", "https://a.example.org:8443/"):
    print(json.load(u.urlopen(url, context=context if url[4] == "s" else None, data=b"12345"))["body"])
try: u.urlopen("https://evil.example.net/")
except OSError as error: print(error)
"""
    result = _run(internet, code)
    reason = "evil.example.net:443 is not in network.allow; allow it with --allow evil.example.net:443"
    assert result.stdout.startswith("5\n5\n5\n") and reason in result.stdout, result.stderr
    use = result.network
    assert use is not None and (use.requests, use.refused, use.error) == (4, 1, None)
    assert {each.target: each.requests for each in use.targets} == {
        "example.org:80": 1,
        "example.org:443": 1,
        "a.example.org:8443": 1,
    }
    assert use.sent == sum(each.sent for each in use.targets) > 1000
    assert use.received == sum(each.received for each in use.targets) > 1000
    usage = result.usage
    assert (usage.network_requests, usage.network_sent, usage.network_received) == (4, use.sent, use.received)
    assert "4 requests, 1 refused" in result.explain()


_CLIENTS = {
    "curl over TLS": ("curl -sS --cacert ca.pem https://example.org/told", '"path": "/told"'),
    "curl with a large body": (
        "head -c 3000000 /dev/zero > big; curl -sS -T big http://example.org/told",
        '"body": 3000000',
    ),
    "curl in chunks": (
        "head -c 300000 /dev/zero | curl -sS -H 'Transfer-Encoding: chunked' --data-binary @- http://example.org/told",
        '"body": 300000',
    ),
    "git over HTTP": (
        "git clone -q http://example.org/files/source/.git told && cat told/told.txt",
        "from a repository",
    ),
    "npm": (
        "npm install -s --no-audit --no-fund --registry http://example.org/files/npm/ told && cat node_modules/told/told.json",
        "from a registry",
    ),
    "gem": ("gem list --remote --clear-sources --source http://example.org/files/gems/", "told (1.0)"),
    "node, to the proxy by name": (
        "node -e \"require('http').get({host: '127.0.0.1', port: 3128, path: 'http://example.org/told', "
        "headers: {host: 'example.org'}}, r => r.pipe(process.stdout))\"",
        '"path": "/told"',
    ),
    "ruby": (
        "ruby -rnet/http -e 'puts Net::HTTP.get(URI(\"http://example.org/told\"))'",
        '"path": "/told"',
    ),
    "a server of the guest itself": (
        "python3 -m http.server -b 127.0.0.1 8000 2>/dev/null & sleep 1; curl -sS http://127.0.0.1:8000/ | head -3",
        "<html",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _CLIENTS)
def test_client_reaches_listed_name(internet: Internet, name: str) -> None:
    command, expected = _CLIENTS[name]
    limits = {"memory": "512MiB", "processes": 64}
    result = _run(internet, command, language="shell", policy={"limits": limits})
    assert expected in result.stdout, (result.summary(), result.stdout, result.stderr, result.network)


_REFUSED = {
    "curl": ("curl -sS http://evil.example.net/", "not in network.allow; allow it with --allow evil.example.net:80"),
    "curl over TLS": (
        "curl -sS https://evil.example.net/",
        "response 403",
    ),
    "git": ("git clone http://evil.example.net/x", "403"),
    "npm": ("npm install --no-audit --fetch-retries 0 --registry http://evil.example.net/ told", "403"),
    "gem": ("gem fetch told --clear-sources --source http://evil.example.net/", "403"),
    "node": (
        "node -e \"require('http').get({host: '127.0.0.1', port: 3128, path: 'http://evil.example.net/', "
        "headers: {host: 'evil.example.net'}}, r => r.pipe(process.stdout))\"",
        "allow it with --allow evil.example.net:80",
    ),
    "ruby": (
        "ruby -rnet/http -e 'puts Net::HTTP.get(URI(\"http://evil.example.net/\"))'",
        "--allow evil.example.net:80",
    ),
}


def test_clients_show_refusal_of_unlisted_name(internet: Internet) -> None:
    code = "\n".join(f"echo '== {name}'; {command} 2>&1" for name, (command, _) in _REFUSED.items())
    limits = {"memory": "512MiB", "processes": 64}
    result = _run(internet, code, language="shell", policy={"limits": limits})
    shown = dict(part.split("\n", 1) for part in result.stdout.split("== ")[1:])
    assert {name for name, (_, reason) in _REFUSED.items() if reason not in shown[name]} == set(), result.stdout
    assert result.network is not None and {each.target for each in result.network.targets} == set()


def test_pip_and_requests_reach_listed_index(internet: Internet) -> None:
    options = [
        "-q",
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--trusted-host",
        "example.org",
        "--target",
        "told",
    ]
    code = f"""
import runpy, sys
sys.argv = ["pip", "install", *{options!r}, "-i", "http://example.org/files/simple/", "told"]
try:
    runpy.run_module("pip", run_name="__main__")
except SystemExit as ended:
    print(ended.code)
sys.path.insert(0, "told")
import told
print(told.WORD)
from pip._vendor import requests
print(requests.get("http://example.org/told").json()["path"], requests.get("http://evil.example.net/").reason[:36])
"""
    result = _run(internet, code, packages=sys.prefix)
    assert result.stdout == "0\nfrom an index\n/told stockade: evil.example.net:80 is not\n", result.stderr


_CALLER = """
import asyncio, json, stockade
network = stockade.Network(allow=["example.org:80"])
code = "import urllib.request as u; print(u.urlopen('http://example.org/').status)"
policy = stockade.Policy(network=network)
runner = stockade.Runner(policy)
stream = runner.stream(code)
words = [event.data.decode() for event in stream if isinstance(event, stockade.Output)]
result = stream.result
cold = [runner.run(code) for _ in range(4)]
program = {"id": "a", "source": code, "language": "python", "expected": "200\\n"}
verdicts = [each.verdict for each in stockade.evaluate([program], policy=policy)]
async def follow():
    return await stockade.AsyncRunner(policy).run(code)
later = asyncio.run(follow())
none = runner.run("1")
print(json.dumps([words, result.network.requests, [each.shared for each in cold], verdicts, later.network.requests,
                  none.network.requests]))
"""


def test_way_out_works_in_streams_batches_and_cold_runs(internet: Internet) -> None:
    answer = internet.ask("command", argv=[sys.executable, "-c", _CALLER])
    assert answer["stdout"].strip() == '[["200\\n"], 1, ["", "", "", ""], ["passed"], 1, 0]', answer


_LIVING = """
import json, stockade
ask = ["python3", "-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).status)"]
with stockade.Sandbox.create(network=stockade.Network(allow=["example.org:80"], requests=3)) as sandbox:
    found = [sandbox.run_command([*ask, f"http://{name}/"]) for name in ("example.org", "a.example.org", *["example.org"] * 2)]
print(json.dumps([[each.stdout for each in found], sandbox.result.network.requests, sandbox.result.network.refused]))
"""


def test_commands_of_a_sandbox_share_one_way_out(internet: Internet) -> None:
    answer = internet.ask("command", argv=[sys.executable, "-c", _LIVING])
    assert answer["stdout"].strip() == '[["200\\n", "", "200\\n", ""], 4, 2]', answer


def test_command_line_allows_and_explains(internet: Internet) -> None:
    code = (
        "import urllib.request as u\n"
        "for name in ('example.org', 'evil.example.net'):\n    print(u.urlopen(f'http://{name}/').status)"
    )
    argv = [sys.executable, "-m", "stockade", "run", "--allow", "example.org:80", "-c", code]
    answer = internet.ask("command", argv=argv)
    assert answer["stdout"] == "200\n" and answer["status"] == 1, answer
    last = answer["stderr"].splitlines()[-1]
    assert last.startswith("stockade: network: evil.example.net:80 is not in network.allow; allow it with --allow evil")


def test_two_runs_have_proxies_of_their_own(internet: Internet) -> None:
    script = """
import stockade, threading
code = "import sys, time, urllib.request as u\\nfor name in ('example.org', 'a.example.org'):\\n    try: print(u.urlopen(f'http://{name}/').status)\\n    except OSError as e: print(e.code)\\n    time.sleep(0.3)"
found = {}
def run(name):
    found[name] = stockade.run(code, policy=stockade.Policy(network=stockade.Network(allow=[f"{name}:80"]))).stdout.split()
threads = [threading.Thread(target=run, args=(name,)) for name in ("example.org", "a.example.org")]
for each in threads: each.start()
for each in threads: each.join()
print(found["example.org"], found["a.example.org"])
"""
    answer = internet.ask("command", argv=[sys.executable, "-c", script])
    assert answer["stdout"] == "['200', '403'] ['403', '200']\n", answer


def test_other_backends_refuse_a_bounded_network() -> None:
    policy = stockade.Policy(network={"allow": ["example.org:80"]}, accept={"network": "absent"})
    for backend in sorted({*registry.BUILT_IN} - {"native"}):
        with pytest.raises((stockade.PlanError, stockade.BackendUnavailable)) as caught:
            stockade.plan(policy, backend=backend)
        if isinstance(caught.value, stockade.PlanError):
            assert "cannot bound a network" in caught.value.missing["network"]


def test_slow_rate_is_not_idleness(internet: Internet) -> None:
    code = "import urllib.request as u; print(len(u.urlopen('http://example.org/bytes?count=250000').read()))"
    made = "stockade.Network(allow=['example.org:80'], rate=65536, idle_time=0.5)"
    script = f"import stockade; print(stockade.run({code!r}, network={made}).stdout)"
    assert internet.ask("command", argv=[sys.executable, "-c", script])["stdout"].strip() == "250000"
