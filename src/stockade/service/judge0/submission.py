"""A submission as clients send it: check it, and turn it into a record for the queue."""

from __future__ import annotations

import binascii
import shlex
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from stockade.core.errors import JobError, PolicyError
from stockade.core.strict_json import dumps
from stockade.service.judge0.facts import LANGUAGES, LIMITS, MOST_ARGUMENTS, MULTI_FILE, Known
from stockade.service.queue import NewRun
from stockade.service.requests import Policies, RunRequest, record_of
from stockade.service.settings import MIB
from stockade.workspace import archives

CONTENTS = ("source_code", "stdin", "expected_output")
"""The fields that are base64 in a request with ``base64_encoded=true``."""
_ENTRIES, _BYTES, _SECONDS = 1000, 8 * MIB, 1.0
"""The bounds of the archives of one request: while the front unpacks them, it answers nobody else."""
_MULTI_FILE_SCRIPTS = ("run", "run.sh")
_COMPILE_SCRIPTS = ("compile", "compile.sh")


def _characters(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("has half of a surrogate pair, which is not a character") from None
    return text


_Text = Annotated[str, AfterValidator(_characters)]
_Time = Annotated[float, Field(ge=0.01, le=3600, allow_inf_nan=False)]


class Submission(BaseModel):
    """A program, in the words of Judge0. Times are seconds and sizes are KiB."""

    model_config = ConfigDict(extra="ignore")
    source_code: _Text | None = None
    language_id: int
    stdin: _Text | None = None
    expected_output: _Text | None = Field(None, description="without it, every program that ends well is accepted")
    command_line_arguments: _Text | None = Field(None, max_length=MOST_ARGUMENTS)
    additional_files: _Text | None = Field(None, description="a zip archive in base64, always")
    cpu_time_limit: _Time | None = None
    wall_time_limit: _Time | None = None
    memory_limit: float | None = Field(None, ge=4096, le=2**40, allow_inf_nan=False)
    stack_limit: int | None = Field(None, ge=64, le=2**40)
    max_processes_and_or_threads: int | None = Field(None, ge=1, le=2**20)
    max_file_size: int | None = Field(None, ge=0, le=2**40)
    cpu_extra_time: float | None = Field(None, ge=0, description="changes nothing: a program ends at its limit")
    number_of_runs: int | None = Field(None, ge=1)
    compiler_options: _Text | None = None
    redirect_stderr_to_stdout: bool | None = None
    enable_per_process_and_thread_time_limit: bool | None = None
    enable_per_process_and_thread_memory_limit: bool | None = None
    enable_network: bool | None = None
    callback_url: _Text | None = None


class Invalid(Exception):
    """A submission that is answered with messages for each field."""

    def __init__(self, messages: Mapping[str, list[str]], status: int = 422) -> None:
        super().__init__(str(messages))
        self.messages, self.status = messages, status


_MISSING = {
    "number_of_runs": "a submission runs once",
    "compiler_options": "no language here is compiled",
    "redirect_stderr_to_stdout": "standard error is always a stream of its own; redirect it in the program",
    "enable_per_process_and_thread_time_limit": "limits hold for all processes of a run together",
    "enable_per_process_and_thread_memory_limit": "limits hold for all processes of a run together",
    "enable_network": "submissions have no network",
    "callback_url": "there are no callbacks; ask for the submission by its token",
}
"""The fields that this service refuses unless they change nothing."""


def record(given: Mapping[str, Any], encoded: bool, policies: Policies, of: int = 1) -> NewRun:
    """Return what the queue keeps of a submission, one ``of`` a request. Raises ``Invalid``."""
    try:
        asked = Submission.model_validate(given)
    except ValidationError as error:
        messages: dict[str, list[str]] = {}
        for each in error.errors():
            messages.setdefault(str(each["loc"][0]), []).append(each["msg"])
        raise Invalid(messages) from None
    for name, reason in _MISSING.items():
        if getattr(asked, name) and (name, getattr(asked, name)) != ("number_of_runs", 1):
            raise Invalid({name: [f"this service does not have it: {reason}"]}, 501)
    known = LANGUAGES.get(asked.language_id)
    if known is None:
        served = ", ".join(f"{each.id} ({each.name})" for each in LANGUAGES.values())
        raise Invalid({"language_id": [f"this service runs {served}"]}, 501)
    contents = {name: _content(asked, name, encoded) for name in CONTENTS}
    try:
        new = record_of(_request(asked, known, contents, of), policies)
    except ValidationError as error:
        raise Invalid({"base": [each["msg"] for each in error.errors()]}) from None
    except (JobError, PolicyError) as error:
        raise Invalid({"base": [_plain(str(error))]}) from None
    kept = asked.model_dump(exclude_none=True, exclude={*CONTENTS, "additional_files"})
    return replace(new, asked=dumps(kept | {name: text for name, text in contents.items() if text}, compact=True))


def _request(asked: Submission, known: Known, contents: Mapping[str, str | None], of: int) -> RunRequest:
    files = _unpacked(asked.additional_files, of)
    given: dict[str, Any] = {
        "stdin": None if contents["stdin"] is None else {"base64": contents["stdin"]},
        "files": {name: {"base64": b64encode(content).decode()} for name, content in files.items()},
        "limits": {
            field: getattr(asked, name) if unit == 1 else int(getattr(asked, name) * unit)
            for name, (field, unit) in LIMITS.items()
            if getattr(asked, name) is not None
        },
    }
    arguments = _arguments(asked.command_line_arguments)
    if known.id == MULTI_FILE:
        return RunRequest.model_validate({"argv": ["bash", _script(asked, files), *arguments], **given})
    if not contents["source_code"]:
        raise Invalid({"source_code": ["is missing: it is the program's text"]})
    source = {"source": {"base64": contents["source_code"]}, "language": known.language, "arguments": arguments}
    return RunRequest.model_validate(source | given)


def _script(asked: Submission, files: Mapping[str, bytes]) -> str:
    """Return the script of a program of many files."""
    if asked.source_code:
        raise Invalid({"source_code": [f"must be empty for language {MULTI_FILE}: the archive has the source"]})
    if any(name in files for name in _COMPILE_SCRIPTS):
        raise Invalid({"additional_files": ["has a compile script, which this service does not run; use run"]}, 501)
    for name in _MULTI_FILE_SCRIPTS:
        if name in files:
            return name
    raise Invalid({"additional_files": [f"must have a script {' or '.join(_MULTI_FILE_SCRIPTS)}"]})


def _content(asked: Submission, name: str, encoded: bool) -> str | None:
    """Return a content in base64."""
    text: str | None = getattr(asked, name)
    if text is None:
        return None
    return b64encode(_decoded(name, text) if encoded else text.encode()).decode()


def _decoded(name: str, text: str) -> bytes:
    try:
        return b64decode("".join(text.split()), validate=True)  # many encoders break lines
    except (binascii.Error, ValueError) as error:
        raise Invalid({name: [f"is not base64: {error}"]}) from None


def _unpacked(text: str | None, of: int) -> dict[str, bytes]:
    if not text:
        return {}
    packed = _decoded("additional_files", text)
    if not packed.startswith(b"PK"):
        raise Invalid({"additional_files": ["is not a zip archive"]})
    try:
        return archives.unpack(packed, archives.Bounds(_ENTRIES // of, _BYTES // of, _SECONDS / of))
    except JobError as error:
        raise Invalid({"additional_files": [_plain(str(error))]}) from None


def _arguments(text: str | None) -> list[str]:
    try:
        return shlex.split(text or "")
    except ValueError as error:
        raise Invalid({"command_line_arguments": [str(error)]}) from None


def _plain(text: str) -> str:
    """Return a text without halves of surrogate pairs, which no UTF-8 has."""
    return text.encode("utf-8", "replace").decode()
