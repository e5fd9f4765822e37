"""SandboxFusion's API as trainers call it: always 200, a limit is a failed program, and a full queue is waited for."""

import base64
import threading

import pytest
from tests.support.service import served

PATH = "/sandbox-fusion/run_code"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("fusion") / "data", "--jobs", "2", "--queue-per-key", "1")


def run(service, code, language="python", **fields):
    status, answer, _ = service.ask("POST", PATH, {"code": code, "language": language, **fields})
    assert status == 200, answer
    return answer


def test_run_code_answers_as_a_trainer_expects(service):
    files = {"in.txt": base64.b64encode(b"\xffpear").decode(), "empty": None}
    code = "import sys; open('out.bin', 'wb').write(open('in.txt', 'rb').read()); print(sys.stdin.read())"
    answer = run(service, code, stdin="42", files=files, fetch_files=["out.bin", "absent"], unknown=1)
    assert answer["status"] == "Success"
    assert {"status": "Finished", "return_code": 0, "stdout": "42\n"}.items() <= answer["run_result"].items()
    assert answer["run_result"]["execution_time"] > 0
    assert answer["files"] == {"out.bin": files["in.txt"]}
    assert (answer["compile_result"], answer["stockade"]["outcome"]) == (None, "completed")
    assert run(service, "echo $0", "bash")["status"] == "Success"


@pytest.mark.parametrize(
    ("code", "fields", "expected", "limits"),
    [
        ("raise ValueError('no')", {}, {"status": "Finished", "return_code": 1}, (None,)),
        ("import sys; sys.exit(3)", {}, {"status": "Finished", "return_code": 3}, (None,)),
        ("import os; os.abort()", {}, {"status": "Finished", "return_code": -6}, (None,)),
        ("while True: pass", {"run_timeout": 1.5}, {"status": "TimeLimitExceeded", "return_code": None}, ("wall_time",)),
        ("b'x' * (1 << 28)", {"memory_limit_MB": 64}, {"status": "Finished"}, ("memory", None)),
    ],
)  # fmt: skip
def test_program_that_fails_is_no_error_of_the_sandbox(service, code, fields, expected, limits):
    answer = run(service, code, **fields)
    assert answer["status"] == "Failed"
    assert expected.items() <= answer["run_result"].items(), answer
    assert answer["stockade"]["limit"] in limits  # without a memory group, Python meets the limit itself: MemoryError


def test_error_of_the_program_is_on_its_standard_error(service):
    assert "ValueError: no" in run(service, "raise ValueError('no')")["run_result"]["stderr"]


def test_requests_wait_for_a_place_in_the_queue(service):
    answers = []
    threads = [threading.Thread(target=lambda n=n: answers.append(run(service, f"print({n})"))) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(int(each["run_result"]["stdout"]) for each in answers) == [*range(12)]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (PATH, {"code": "", "language": "cpp"}, 501, "this service runs bash, nodejs, python, ruby"),
        ("/sandbox-fusion/run_jupyter", {"cells": []}, 501, "run_code"),
        (PATH, {"code": "", "language": "python", "files": {"../x": ""}}, 422, "'..'"),
        (PATH, {"code": "", "language": "python", "files": {"x": "?"}}, 422, "base64"),
        (PATH, {"language": "python"}, 422, "code"),
    ],
)  # fmt: skip
def test_request_that_cannot_be_served_names_the_reason(service, path, body, status, words):
    found, answer, _ = service.ask("POST", path, body)
    assert (found, words in answer["message"]) == (status, True), answer


def test_key_may_be_the_password_of_a_url(service):
    for password, status in ((service.key, 200), (f"e2b_{'0' * 40}", 401), ("", 401)):
        basic = "Basic " + base64.b64encode(f"key:{password}".encode()).decode()
        body = {"code": "", "language": "python"}
        assert service.ask("POST", PATH, body, key="", Authorization=basic)[0] == status
