"""Facts about the service: its languages, statuses and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from stockade.policy.guarantees import Guarantee
from stockade.policy.parts.limits import Limits
from stockade.service.requests import Policies, RunRequest
from stockade.service.settings import Settings

VERSION: Final = "1.13.1"
"""The version of Judge0's API whose languages and fields are answered. Clients look up ids by it."""
MULTI_FILE: Final = 89
MOST_IN_BATCH: Final = 20
MOST_ARGUMENTS: Final = 512
"""The most characters of ``command_line_arguments``."""
_ENDLESS: Final = 2**31 - 1
"""What stands for a limit that is not set, where the API wants a number."""


@dataclass(frozen=True)
class Known:
    """A language of this service. ``language`` is empty for a program of many files, which brings its own script."""

    id: int
    name: str
    language: str
    source_file: str | None
    run_cmd: str

    def brief(self) -> dict[str, Any]:
        """Return what a list shows of it."""
        return {"id": self.id, "name": self.name}

    def whole(self) -> dict[str, Any]:
        """Return all fields."""
        rest = {"is_archived": False, "source_file": self.source_file, "compile_cmd": None, "run_cmd": self.run_cmd}
        return self.brief() | rest


LANGUAGES: Final = {
    each.id: each
    for each in (
        Known(46, "Bash", "shell", "main.sh", "bash main.sh"),
        Known(63, "JavaScript (Node.js)", "javascript", "main.js", "node main.js"),
        Known(71, "Python 3", "python", "main.py", "python3 main.py"),
        Known(72, "Ruby", "ruby", "main.rb", "ruby main.rb"),
        Known(MULTI_FILE, "Multi-file program", "", None, "bash run"),
    )
}
STATUSES: Final = {
    1: "In Queue",
    2: "Processing",
    3: "Accepted",
    4: "Wrong Answer",
    5: "Time Limit Exceeded",
    6: "Compilation Error",
    7: "Runtime Error (SIGSEGV)",
    8: "Runtime Error (SIGXFSZ)",
    9: "Runtime Error (SIGFPE)",
    10: "Runtime Error (SIGABRT)",
    11: "Runtime Error (NZEC)",
    12: "Runtime Error (Other)",
    13: "Internal Error",
    14: "Exec Format Error",
}
LIMITS: Final = {
    "cpu_time_limit": ("cpu_time", 1),
    "wall_time_limit": ("wall_time", 1),
    "memory_limit": ("memory", 1024),
    "stack_limit": ("stack", 1024),
    "max_processes_and_or_threads": ("processes", 1),
    "max_file_size": ("file_size", 1024),
}
"""Each limit of the API: the policy's name for it, and how many of the policy's units one of the API's is."""


def config(settings: Settings, policies: Policies) -> dict[str, Any]:
    """Return the settings: limits of a submission that sets none, and the most that one may have."""
    unset = policies.of(RunRequest(source="")).limits
    unlimited = {name: "unlimited" for name, _ in LIMITS.values()}
    most = policies.of(RunRequest(source="", limits=unlimited)).limits
    limits = {name: _figure(unset, name) for name in LIMITS}
    return {
        **limits,
        **{f"max_{name}": _figure(most, name) for name in LIMITS},
        "cpu_extra_time": 0,
        "max_cpu_extra_time": 0,
        "number_of_runs": 1,
        "max_number_of_runs": 1,
        "max_queue_size": settings.queued_runs,
        "max_submission_batch_size": MOST_IN_BATCH,
        "max_extract_size": settings.body_bytes // 1024,
        "submission_cache_duration": 0,
        "callbacks_max_tries": 0,
        "callbacks_timeout": 0,
        "allowed_languages_for_compile_options": [],
        **dict.fromkeys(_THERE, True),
        **dict.fromkeys(_NOT_THERE, False),
    }


_THERE = (
    "enable_wait_result",
    "enable_batched_submissions",
    "enable_additional_files",
    "enable_command_line_arguments",
)
_NOT_THERE = (
    "maintenance_mode",
    "enable_callbacks",
    "enable_compiler_options",
    "enable_network",
    "allow_enable_network",
    "enable_per_process_and_thread_time_limit",
    "allow_enable_per_process_and_thread_time_limit",
    "enable_per_process_and_thread_memory_limit",
    "allow_enable_per_process_and_thread_memory_limit",
    "enable_submission_delete",
    "redirect_stderr_to_stdout",
    "use_docs_as_homepage",
)


def _figure(limits: Limits, name: str) -> float:
    field, unit = LIMITS[name]
    found = limits.figure(Guarantee(field))
    if found is None:
        return _ENDLESS
    return found if unit == 1 else int(found // unit)
