"""``stockade.run`` with a service as its backend: a real service, and what must never reach one."""

from __future__ import annotations

import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.service import served

import stockade
from stockade import Guarantee


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("backend") / "data")


@pytest.fixture(scope="module")
def there(service):
    return stockade.Remote(f"http://{service.address}", service.key)


def test_run_goes_to_the_service_and_says_so(service, there, tmp_path):
    result = stockade.run("print(input())\nopen('out', 'w').write('a')", backend=there, stdin="é", artifacts=["out"])
    assert (result.stdout, dict(result.artifacts)) == ("é\n", {"out": b"a"})
    assert result.backend == f"native at {service.address}"
    assert result.enforcement[Guarantee.MEMORY].mechanism
    (tmp_path / "a.sh").write_text("echo $1 $X; cat name")
    files, environment = {"name": b"\xff"}, {"X": "x"}
    result = stockade.run(tmp_path / "a.sh", backend=there, arguments=["one"], files=files, environment=environment)
    assert result.stdout_bytes == b"one x\n\xff"
    result = stockade.run_command(["sh", "-c", "exit 3"], backend=there, labels={"user": "ada"})
    assert result.exit_code == 3
    assert service.ask("GET", "/v1/runs?limit=1")[1]["runs"][0]["labels"] == {"user": "ada"}
    assert service.key not in repr(there)


def test_limits_of_the_policy_hold_there_and_warn_here(there):
    warnings = []
    result = stockade.run(
        "while True: pass", backend=there, policy={"limits": {"wall_time": 30}, "on_output": "kill"}, cpu_time=0.5,
        on_warning=warnings.append,
    )  # fmt: skip
    assert result.limit is Guarantee.CPU_TIME
    assert [(each.guarantee, each.state, each.figure) for each in warnings] == [(Guarantee.CPU_TIME, "near", 0.5)]


@contextmanager
def listening():
    """Yield a service that fails the test if anybody connects to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield stockade.Remote(f"http://127.0.0.1:{server.getsockname()[1]}", "key", patience=0)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("packages", {"packages": "/usr/lib/python3"}),
        ("interpreter", {"interpreter": "/usr/bin/python3"}),
        ("requirements", {"requirements": ["pandas"]}),
        ("secrets", {"secrets": {"KEY": stockade.Secret("value", hosts=["a.example"])}}),
        ("on_ask", {"on_ask": lambda _target: True}),
        ("caps", {"caps": stockade.ArtifactLimits(files=1)}),
        ("image", {"image": "python:3.12"}),
        ("trust", {"trust": "untrusted"}),
        ("ceiling", {"ceiling": {"limits": {"memory": "1MiB"}}}),
        ("warm", {"warm": True}),
        ("preload", {"preload": ["json"]}),
        ("filesystem", {"policy": {"filesystem": {"read": ["/etc"]}}}),
        ("isolation", {"policy": "strict"}),
        ("security", {"policy": {"security": {"explain_denials": True}}}),
    ],
)
def test_option_that_cannot_cross_is_refused_before_a_connection(name, options):
    with (
        listening() as there,
        pytest.raises((stockade.JobError, stockade.PolicyError), match=f"^{name}\\b|\\b{name} ="),
    ):
        stockade.run("print(1)", backend=there, **options)


def test_files_of_this_machine_are_not_sent():
    with listening() as there, tempfile.TemporaryFile() as file:
        file.truncate(17 << 20)
        with pytest.raises(stockade.JobError, match=r"^stdin: "):
            stockade.run("1", backend=there, stdin=file)
        with pytest.raises(stockade.BackendUnavailable, match="a backend is a name"):
            stockade.Runner(backend=there)


def test_command_sees_no_file_of_this_machine(there, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("secret.txt").write_text("of this machine")
    result = stockade.run_command(["cat", "secret.txt"], backend=there)
    assert (result.stdout, result.exit_code) == ("", 1)
