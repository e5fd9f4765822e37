"""Judge0's API as judges call it: submissions alone and in batches, verdicts by status, and nobody else's tokens."""

import base64
import io
import os
import signal
import zipfile
from uuid import UUID

import pytest
from tests.support.service import served, wait_for

PATH = "/judge0/submissions"
BASH, JAVASCRIPT, PYTHON, RUBY, MULTI_FILE = 46, 63, 71, 72, 89
ACCEPTED, WRONG, TIME, ABORTED, NON_ZERO, OTHER = 3, 4, 5, 10, 11, 12


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("judge0") / "data", "--jobs", "2", "--queue-per-key", "8")


def submit(service, source, language=PYTHON, query="", **fields):
    body = {"source_code": source, "language_id": language, **fields}
    status, answer, _ = service.ask("POST", f"{PATH}?wait=true{query}", body)
    assert status == 201, answer
    return answer


def in_base64(content):
    return base64.b64encode(content).decode()


def packed(**files):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return in_base64(raw.getvalue())


def test_submission_with_wait_is_answered_with_its_result(service):
    answer = submit(service, "print(input()[::-1] + ' ')", stdin="raep", expected_output="pear\n\n")
    assert answer["status"] == {"id": ACCEPTED, "description": "Accepted"}
    assert (answer["stdout"], answer["stderr"], answer["message"]) == ("pear \n", None, None)
    assert float(answer["time"]) >= 0
    assert answer["stockade"] == {"outcome": "completed", "limit": None}


@pytest.mark.parametrize(
    ("source", "fields", "status", "expected"),
    [
        ("print(5)", {"expected_output": "6"}, WRONG, {"stdout": "5\n"}),
        ("raise ValueError('no')", {"expected_output": ""}, NON_ZERO, {"exit_code": 1, "exit_signal": None}),
        ("import os; os.abort()", {}, ABORTED, {"exit_code": None, "exit_signal": 6}),
        ("while True: pass", {"cpu_time_limit": 0.3}, TIME, {"stockade": {"outcome": "limit_exceeded", "limit": "cpu_time"}}),
        ("import sys; print(sys.argv[1:])", {"command_line_arguments": "a 'b c'"}, ACCEPTED, {"stdout": "['a', 'b c']\n"}),
    ],
)  # fmt: skip
def test_status_follows_the_outcome(service, source, fields, status, expected):
    query = "&fields=status,stdout,exit_code,exit_signal,stockade"
    answer = submit(service, source, query=query, **fields)
    assert answer["status"]["id"] == status, answer
    assert expected.items() <= answer.items()


def test_message_names_the_limit(service):
    answer = submit(service, "b'x' * (1 << 28)", memory_limit=65536)
    found = (answer["status"]["id"], answer["stockade"]["limit"])
    # without a memory group, Python meets the limit itself: MemoryError
    assert (*found, "memory" in answer["message"].lower()) in ((OTHER, "memory", True), (NON_ZERO, None, True)), answer


def test_output_past_its_limit_is_never_the_right_one(service):
    text = "x" * 70_000  # the policy keeps 64 KiB
    answer = submit(service, f"print({text[0]!r} * {len(text)})", expected_output=text)
    assert (answer["status"]["id"], "left out" in answer["message"]) == (WRONG, True)


def test_submission_in_base64_keeps_bytes(service):
    source = in_base64(b"import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())")
    whole = f"{source[:9]}\n{source[9:]}"
    answer = submit(
        service, whole, query="&base64_encoded=true&fields=*", stdin=in_base64(b"\xff"), expected_output="/w=="
    )
    assert (answer["status_id"], answer["stdout"], answer["source_code"]) == (ACCEPTED, "/w==", source)
    path = f"{PATH}/{answer['token']}"
    assert service.ask("GET", path)[0] == 400  # the output is not UTF-8
    assert service.ask("GET", f"{path}?fields=time,status")[0] == 200


def test_token_is_polled_until_the_submission_ends(service):
    found, answer, _ = service.ask("POST", PATH, {"source_code": "puts 6 * 7", "language_id": RUBY})
    assert (found, [*answer]) == (201, ["token"])
    path = f"{PATH}/{UUID(answer['token'], version=4)}?fields=*"
    wait_for(lambda: service.ask("GET", path)[1]["status_id"] > 2)
    answer = service.ask("GET", path)[1]
    assert (answer["status_id"], answer["stdout"], answer["language"]["id"]) == (ACCEPTED, "42\n", RUBY)
    assert answer["created_at"].endswith("Z")
    assert "stockade" not in answer  # the official client fails at fields that it does not know


def test_batch_answers_each_submission(service):
    bodies = [
        {"source_code": "echo $((6 * 7))", "language_id": BASH, "expected_output": "42"},
        {"source_code": "", "language_id": PYTHON},
        {"source_code": "console.log('a')", "language_id": JAVASCRIPT, "expected_output": "b"},
        {"source_code": "", "language_id": 54},
    ]
    found, answers, _ = service.ask("POST", f"{PATH}/batch", {"submissions": bodies})
    assert (found, [[*each] for each in answers]) == (201, [["token"], ["source_code"], ["token"], ["language_id"]])
    tokens = [answers[0]["token"], str(UUID(int=5)), answers[2]["token"]]
    path = f"{PATH}/batch?fields=status_id&tokens={','.join(tokens)}"

    def ended():
        shown = service.ask("GET", path)[1]["submissions"]
        return [each and each["status_id"] for each in shown] == [ACCEPTED, None, WRONG]

    wait_for(ended)


def test_batch_is_accepted_as_a_whole_or_not_at_all(service):
    slow = {"source_code": "sleep 1", "language_id": BASH}
    found, answer, headers = service.ask("POST", f"{PATH}/batch", {"submissions": [slow] * 11})
    assert (found, "queue is full" in answer["message"], headers["Retry-After"]) == (503, True, "5")
    assert service.ask("GET", "/v1/runs?state=queued")[1]["runs"] == []


def test_additional_files_are_beside_the_program(service):
    files = {"run.sh": "cat data/in; python3 main.py", "main.py": "print(6 * 7)", "data/in": "pear\n"}
    answer = submit(service, None, MULTI_FILE, additional_files=packed(**files))
    assert (answer["status"]["id"], answer["stdout"]) == (ACCEPTED, "pear\n42\n"), answer
    answer = submit(service, "print(open('a').read())", additional_files=packed(a="fig"))
    assert answer["stdout"] == "fig\n", answer


@pytest.mark.parametrize(
    ("fields", "status", "name", "words"),
    [
        ({"language_id": 54}, 501, "language_id", "71 (Python 3)"),
        ({"enable_network": True}, 501, "enable_network", "no network"),
        ({"callback_url": "http://127.0.0.1/"}, 501, "callback_url", "token"),
        ({"number_of_runs": 2}, 501, "number_of_runs", "once"),
        ({"memory_limit": 1}, 422, "memory_limit", "4096"),
        ({"cpu_time_limit": "nan"}, 422, "cpu_time_limit", "number"),
        ({"source_code": "\ud800"}, 422, "source_code", "surrogate"),
        ({"source_code": None}, 422, "source_code", "missing"),
        ({"command_line_arguments": "\ud800"}, 422, "command_line_arguments", "surrogate"),
        ({"command_line_arguments": "'"}, 422, "command_line_arguments", "quotation"),
        ({"additional_files": "?"}, 422, "additional_files", "base64"),
        ({"additional_files": packed(**{"../x": "x"})}, 422, "additional_files", "'..'"),
        ({"additional_files": packed(bomb="x" * (9 << 20))}, 422, "additional_files", "8 MiB"),
        ({"language_id": MULTI_FILE, "source_code": None}, 422, "additional_files", "run.sh"),
    ],
)  # fmt: skip
def test_submission_that_cannot_be_served_names_the_field(service, fields, status, name, words):
    found, answer, _ = service.ask("POST", PATH, {"source_code": "1", "language_id": PYTHON} | fields)
    assert (found, [*answer]) == (status, [name]), answer
    assert words in answer[name][0]


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", f"{PATH}?page=1", 501, "/v1/runs"),
        ("DELETE", f"{PATH}/{UUID(int=5)}", 501, "delete"),
        ("GET", f"{PATH}/x", 404, "token"),
        ("GET", f"{PATH}/x?fields=token,nothing", 400, "invalid fields: ['nothing']"),
        ("GET", f"{PATH}/batch", 400, "1 to 20"),
        ("GET", "/judge0/languages/54", 404, "/judge0/languages"),
    ],
)
def test_request_that_cannot_be_served_names_the_reason(service, method, path, status, words):
    found, answer, _ = service.ask(method, path)
    assert (found, words in answer["message"]) == (status, True), answer


def test_facts_are_those_that_clients_read(service):
    languages = service.ask("GET", "/judge0/languages", key="", X_Auth_Token=service.key)[1]
    assert [each["id"] for each in languages] == [BASH, JAVASCRIPT, PYTHON, RUBY, MULTI_FILE]
    assert service.ask("GET", f"/judge0/languages/{PYTHON}")[1]["run_cmd"] == "python3 main.py"
    assert len(service.ask("GET", "/judge0/statuses")[1]) == 14
    assert service.ask("GET", "/judge0/about")[1]["version"] == "1.13.1"
    config = service.ask("GET", "/judge0/config_info")[1]
    assert (config["max_memory_limit"], config["max_wall_time_limit"]) == (1 << 20, 300)


def test_key_reads_no_submission_of_another_key(service):
    token = submit(service, "print('secret')")["token"]
    other = service.add_key("other")
    run = f"run_{token.replace('-', '')}"
    for key, status, shown in ((service.key, 200, True), (other, 404, False)):
        assert service.ask("GET", f"{PATH}/{token}", key=key)[0] == status
        assert service.ask("GET", f"/v1/runs/{run}", key=key)[0] == status
        batch = service.ask("GET", f"{PATH}/batch?tokens={token}", key=key)[1]["submissions"]
        assert ([each is not None for each in batch]) == [shown]
    native = service.submit({"source": ""}).removeprefix("run_")
    assert service.ask("GET", f"{PATH}/{native}")[0] == 404  # it has none of the fields of a submission


def test_submission_outlives_a_kill_of_the_worker(service):
    bodies = [{"source_code": f"sleep 0.5; echo {n}", "language_id": BASH, "expected_output": str(n)} for n in range(4)]
    answers = service.ask("POST", f"{PATH}/batch", {"submissions": bodies})[1]
    os.kill(service.worker, signal.SIGKILL)
    path = f"{PATH}/batch?fields=status_id&tokens={','.join(each['token'] for each in answers)}"
    wait_for(lambda: [each["status_id"] for each in service.ask("GET", path)[1]["submissions"]] == [ACCEPTED] * 4)
