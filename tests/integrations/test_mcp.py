"""Our MCP server under the protocol's own tools: the command line of its inspector, and its conformance scenarios.

``scripts/integrations.sh`` downloads both, and the Node that they need, into the folder ``NPM_OF_TESTS``.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.support.service import served

SCENARIOS = [
    "server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "server-sse-multiple-streams",
    "dns-rebinding-protection",
]  # fmt: skip
"""Those that apply. The others call tools, resources and prompts of the scenarios' own, or need what we do not offer:
logging, completion, sampling, elicitation and streams that a client resumes.
"""
TOOLS = {"run_python", "run_command", "write_file", "read_file", "list_files", "reset", "plan"}
HOP = ("connection", "transfer-encoding", "keep-alive", "content-length")


@pytest.fixture(scope="session")
def npm():
    """The folder of the programs, and the environment in which they run."""
    modules = Path(os.environ["NPM_OF_TESTS"]) / "node_modules"
    path = f"{modules / 'node' / 'bin'}:{os.environ['PATH']}"
    return modules / ".bin", os.environ | {"PATH": path}


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("mcp") / "data")


@pytest.fixture(scope="session")
def url(service):
    """An address that needs no key, because the scenarios send none: a relay adds it, and changes nothing else."""

    class Relay(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _relay(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(service.address, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.putheader("X-API-Key", service.key)
            connection.endheaders(body)
            answer = connection.getresponse()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while piece := answer.read1(65536):
                self.wfile.write(piece)
                self.wfile.flush()
            connection.close()
            self.close_connection = True

        do_GET = do_POST = do_DELETE = _relay  # noqa: N815

        def log_message(self, *values):
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Relay) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()


def ran(npm, program, *arguments):
    programs, environment = npm
    command = [str(programs / program), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def inspected(npm, target, *arguments):
    done = ran(npm, "mcp-inspector", "--cli", *target, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_conformance_scenario_passes_over_http(npm, url, scenario):
    done = ran(npm, "conformance", "server", "--url", url, "--scenario", scenario)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed" in done.stdout, done.stdout


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_inspector_lists_and_calls_the_tools(npm, service, transport):
    target = {
        "stdio": [sys.executable, "-m", "stockade", "mcp"],
        "http": [f"http://{service.address}/mcp", "--transport", "http", "--header", f"X-API-Key: {service.key}"],
    }[transport]
    listed = inspected(npm, target, "--method", "tools/list", "--strict")
    assert {each["name"] for each in listed["tools"]} == TOOLS
    call = ("--method", "tools/call", "--tool-name", "run_python", "--tool-arg", "code=6 * 7")
    found = inspected(npm, target, *call)
    assert found["content"][0]["text"] == "42" and found["structuredContent"]["value"] == "42"
