"""Requests of clients: check one, turn it into a record for the queue, and later into a job for a runner."""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from stockade.api.job_arguments import job_from_command, job_from_source
from stockade.core.errors import FieldProblem, JobError, PolicyError
from stockade.core.strict_json import dumps
from stockade.policy import ceiling
from stockade.policy.model import Policy
from stockade.policy.resolve import with_layers
from stockade.runs.job import Job
from stockade.service.client_steps import TABLES
from stockade.service.queue import NewRun
from stockade.service.settings import MIB, Settings
from stockade.workspace.artifacts import ArtifactLimits

_OWN_LABELS = ("key", "run")
_MOST_FILES = 1000
_DEEPEST = 8
_MOST_POLICIES = 64
_ARTIFACTS = ArtifactLimits(files=100, file_bytes=4 * MIB, total_bytes=8 * MIB)


def _decodable(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"is not base64: {error}") from None
    return text


class Encoded(BaseModel):
    """Bytes that may not be text."""

    model_config = ConfigDict(extra="forbid", strict=True)
    base64: Annotated[str, AfterValidator(_decodable)]


def _kind(value: Any) -> str:
    return "base64" if isinstance(value, Mapping | Encoded) else "text"


Content = Annotated[Annotated[str, Tag("text")] | Annotated[Encoded, Tag("base64")], Discriminator(_kind)]


class RunRequest(BaseModel):
    """A run: either `source` in a `language`, or the command `argv`. A content is text, or `{"base64": "..."}`."""

    model_config = ConfigDict(extra="forbid", strict=True)
    source: Content | None = Field(None, description="the program's text")
    argv: list[str] | None = Field(None, description="a command and its arguments, instead of a source")
    language: str | None = Field(None, description="python (the default), ruby, javascript or shell")
    arguments: list[str] = Field([], description="command-line arguments of the source")
    stdin: Content | None = Field(None, description="standard input; empty without it")
    files: dict[str, Content] = Field({}, description="files of the workspace: relative name to content")
    environment: dict[str, str] = Field({}, description="variables of the guest")
    artifacts: list[str] = Field([], description="patterns of files to bring out, such as out/**")
    limits: dict[str, Any] = Field({}, description='the limits of the policy, such as {"memory": "64MiB"}')
    policy: dict[str, Any] = Field({}, description=f"other fields of the policy; of {', '.join(TABLES)}")
    labels: dict[str, str] = Field({}, description="what you say of the run")
    live: bool = Field(False, description="keep its events while it happens, for /v1/runs/ID/events")


class Policies:
    """The policies of requests: the operator's, with a request's fields on top, under the ceilings.

    Policy and ceilings are read once, so a change of a file holds after a restart.
    """

    def __init__(self, settings: Settings) -> None:
        """Raises ``PolicyError`` for a policy or ceiling that is invalid, or a policy above the ceiling."""
        self._base = Policy.parse(settings.policy)
        self._ceilings, self._trust = ceiling.ceilings(settings.ceiling), settings.trust
        self._known: OrderedDict[str, Policy] = OrderedDict()
        self.of(RunRequest(source=""))

    def of(self, request: RunRequest) -> Policy:
        """Return the policy of a request. Raises ``PolicyError``."""
        name = self.name(request)
        policy = self._known.pop(name, None) or self._made(request)
        self._known[name] = policy
        if len(self._known) > _MOST_POLICIES:
            self._known.popitem(last=False)
        return policy

    @staticmethod
    def name(request: RunRequest) -> str:
        """Return a text that requests with the same policy share. Raises ``PolicyError``."""
        if _depth((request.policy, request.limits)) > _DEEPEST:
            raise PolicyError([FieldProblem("policy", "{...}", "is nested more deeply than any policy")])
        return dumps([request.policy, request.limits], sort_keys=True)

    def _made(self, request: RunRequest) -> Policy:
        problems = [
            FieldProblem(name, repr(value)[:80], f"a request may set {', '.join(TABLES)}; the operator sets the rest")
            for name, value in request.policy.items()
            if name not in TABLES
        ]
        if problems:
            raise PolicyError(problems)
        layers = {"request's policy": request.policy, "request's limits": {"limits": request.limits}}
        given = {name: fields for name, fields in layers.items() if fields and fields != {"limits": {}}}
        policy = with_layers(self._base, given) if given else self._base
        for most in self._ceilings:
            policy, _ = ceiling.under(policy, most, self._trust)
        return policy


def record_of(request: RunRequest, policies: Policies, repeat: str | None = None, batch: str | None = None) -> NewRun:
    """Return what the queue keeps of a request, whichever interface it came by.

    Raises ``JobError`` and ``PolicyError`` for all that can be known before a sandbox is made.
    """
    job_of(request, {})
    policies.of(request)
    labels = dumps(request.labels, compact=True)
    return NewRun(dumps(request.model_dump(exclude_defaults=True), compact=True), labels, repeat, batch)


def job_of(request: RunRequest, own_labels: Mapping[str, str]) -> Job:
    """Return the job of a request. Raises ``JobError``."""
    taken = [name for name in _OWN_LABELS if name in request.labels]
    if taken:
        raise JobError(f"labels: {taken[0]} is the service's own; choose another name")
    if len(request.files) > _MOST_FILES:
        raise JobError(f"files: {len(request.files)} are given, and a request has at most {_MOST_FILES}")
    options: dict[str, Any] = {
        "stdin": None if request.stdin is None else content_bytes("stdin", request.stdin),
        "files": {name: content_bytes(f"files[{name!r:.80}]", content) for name, content in request.files.items()},
        "environment": request.environment,
        "artifacts": request.artifacts,
        "caps": _ARTIFACTS,
        "labels": {**request.labels, **own_labels},
    }
    if (request.source is None) == (request.argv is None):
        raise JobError("give either source, a program's text, or argv, a command as a list of words")
    if request.source is not None:
        # As bytes: a text that ends in .py would be looked up as a path of this host.
        source = content_bytes("source", request.source)
        return job_from_source(source, language=request.language, arguments=request.arguments, **options)
    if request.language is not None or request.arguments:
        raise JobError("language and arguments belong to a source; a command's arguments are words of argv")
    return job_from_command(request.argv or [], **options)


def content_bytes(name: str, content: Content) -> bytes:
    """Return the bytes of a content. Raises ``JobError`` for a text that has none."""
    if isinstance(content, Encoded):
        return base64.b64decode(content.base64)
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise JobError(f"{name}: has half of a surrogate pair, which is not a character") from None


def _depth(value: Any) -> int:
    """Return how deeply a value is nested, without recursion."""
    depth, level = 0, [value]
    while level:
        depth += 1
        inner = [each.values() if isinstance(each, Mapping) else each for each in level]
        level = [item for each in inner for item in each if isinstance(item, Mapping | list | tuple)]
    return depth
