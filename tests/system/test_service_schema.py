"""schemathesis asks the real service for what its schema allows, and for much that it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.support.service import served

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "ignored_auth",
    "missing_required_header",
    "negative_data_rejection",
)
CONFIG = """\
[checks]
not_a_server_error.expected-statuses = ["2xx", "4xx", 501, 503]  # refusals that the schema names
"""
CEILING = """\
[limits]
wall_time = "1s"
cpu_time = "1s"
memory = "64MiB"
"""
SHORT = ("--phases=coverage", "--max-examples=1")
LONG = ("--phases=examples,coverage,fuzzing,stateful", "--max-examples=100", "--max-time=600")
WHOLE = "STOCKADE_WHOLE" in os.environ
ANSWERED_TO_ANYONE = ("/healthz", "/readyz")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "ceiling.toml").write_text(CEILING)
    yield from served(folder / "data", "--ceiling", str(folder / "ceiling.toml"))


def fuzzed(service, folder, key, *options):
    """Run schemathesis with a key, and return its status and what it printed."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", folder / "schemathesis.toml", "run"]
    settings = ["--seed=1", "--generation-database=none", "--generation-with-security-parameters=false", "--no-color"]
    asked = [
        f"http://{service.address}/openapi.json",
        "-H",
        f"Authorization: Bearer {key}",
        f"--checks={','.join(CHECKS)}",
    ]
    done = subprocess.run(
        [*command, *settings, "--continue-on-failure", *options, *asked],
        cwd=folder, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(1000)
def test_answers_to_a_key_are_as_the_schema_says(service, tmp_path):
    status, said = fuzzed(service, tmp_path, service.add_key("fuzzer"), *(LONG if WHOLE else SHORT))
    assert status == 0, said


def test_figures_for_an_operator_are_as_the_schema_says(service, tmp_path):
    # Never the kill switch by an operator's key: as root, it holds for the whole machine.
    status, said = fuzzed(service, tmp_path, service.key, "--include-path=/metrics", *SHORT)
    assert status == 0, said
    assert "Selected: 1/" in said


def test_schema_that_lies_is_noticed(service, tmp_path):
    schema = service.ask("GET", "/openapi.json")[1]
    schema["paths"] = {"/healthz": schema["paths"]["/healthz"]}
    schema["paths"]["/healthz"]["get"]["responses"]["200"]["content"]["application/json"]["schema"] = {"type": "array"}
    (tmp_path / "lies.json").write_text(json.dumps(schema))
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "schemathesis.cli", "run", "lies.json", f"--url=http://{service.address}"]
    done = subprocess.run([*command, *SHORT, "--no-color"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "Response violates schema" in done.stdout) == (1, True), done.stdout + done.stderr


def test_every_request_documents_what_the_gate_refuses(service):
    for path, methods in service.ask("GET", "/openapi.json")[1]["paths"].items():
        for method, operation in methods.items():
            missing = {"400", "401", "408", "413", "422", "503"} - operation["responses"].keys()
            assert not missing or path in ANSWERED_TO_ANYONE, (method, path, missing)
