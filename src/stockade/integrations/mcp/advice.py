"""Advice to a model, or to the person behind it, after a failed call. The guest writes the text that is searched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stockade.integrations.mcp.answers import RunAnswer
from stockade.planning.figures import asked
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from stockade.integrations.mcp.places import Place

_TAIL = 8192
_MODULE = re.compile(r"No module named '?([\w.]{1,60})")
_NETWORK = re.compile(
    r"Could not resolve host|[Nn]ame resolution|Name or service not known|getaddrinfo (?:EAI|ENOT)"
    r"|Network is unreachable|Failed to establish a new connection"
)
_MISSING = re.compile(r"No such file or directory|: not found|FileNotFoundError")
_MEMORY = re.compile(r"\bMemoryError\b|Cannot allocate memory")
_FULL = re.compile(r"No space left on device|\[Errno 28\]")
_LARGE = re.compile(r"File too large|\[Errno 27\]|File size limit exceeded")
_READ_ONLY = re.compile(r"Read-only file system|\[Errno 30\]")
_PROCESSES = re.compile(r"Resource temporarily unavailable|can't start new thread|[Cc]annot fork|pthread_create")


def advice(answer: RunAnswer, place: Place, seconds: float) -> str:
    """Return what to do next, or an empty text. ``seconds`` is the time that the call had."""
    parts = ("" if answer.outcome == "completed" else _about_end(answer, place, seconds), _about_output(answer))
    return " ".join(filter(None, parts))


def _about_end(answer: RunAnswer, place: Place, seconds: float) -> str:
    text = "\n".join(each[-_TAIL:] for each in (answer.stderr, answer.error or ""))
    if answer.outcome == "timed_out":
        return (
            f"It took longer than {seconds:g} s and was ended. Do less at a time, or pass a longer timeout (at most "
            f"{place.longest:g}); a server belongs into the background: run_command with 'COMMAND > log 2>&1 &'."
        )
    if answer.limit is not None:
        return f"It needs less {answer.limit}, or {place.remedies.more.format(answer.limit)}."
    if answer.outcome == "died":
        return (
            "The variables are gone, the files are kept, and the next run_python starts a fresh interpreter. If a "
            f"limit ended it, work on smaller parts, or {place.remedies.more.format('NAME')}."
        )
    return for_text(text, place)


def for_text(text: str, place: Place) -> str:
    """Return what to do about an error of the guest or of a file, by its text; empty if nothing is known."""
    for pattern, sentence in _sentences(place):
        if found := pattern.search(text):
            return sentence.replace("{}", found[1] if found.groups() else "")
    return ""


def _sentences(place: Place) -> tuple[tuple[re.Pattern[str], str], ...]:
    disk, file_size, processes, memory = (
        asked(place.policy, limit)
        for limit in (Guarantee.DISK, Guarantee.FILE_SIZE, Guarantee.PROCESSES, Guarantee.MEMORY)
    )
    network = (
        f"The sandbox has no network; {place.remedies.target}."
        if place.policy.network == "none"
        else "The sandbox reaches only the targets that the user allowed; the tool plan lists them."
    )
    return (
        (_MODULE, f"The sandbox has no package {{}}; do without it, or {place.remedies.package}."),
        (_NETWORK, network),
        (_MEMORY, f"{memory} of memory was not enough: work on smaller parts, or "
                  f"{place.remedies.more.format('memory')}."),
        (_FULL, f"The disk of {disk} is full: remove files, or write less."),
        (_LARGE, f"A file has {file_size} at most here: write smaller ones."),
        (_READ_ONLY, "Only the workspace and /tmp can be written, and the workspace only if the user gave --access."),
        (_PROCESSES, f"There are {processes} processes and threads at most: start fewer at a time."),
        (_MISSING, "The sandbox shows its own files, the workspace and the programs of /usr, and no other file of the "
                   "host: list_files shows what is there, and write_file brings in what is missing."),
    )  # fmt: skip


def _about_output(answer: RunAnswer) -> str:
    cut = [name for name in ("stdout", "stderr") if "bytes omitted ...]" in getattr(answer, name)]
    if not cut:
        return ""
    return f"A part of {' and '.join(cut)} was left out: write long output to a file, and read parts with read_file."
