"""The errors that a caller can meet. A failed sandbox is never reported as failed code."""

from __future__ import annotations

TYPE_CHECKING = False  # this module loads with the public face, so that it can report when stockade's files are gone
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any


class StockadeError(Exception):
    """Base of every error that stockade raises on purpose."""

    def as_json(self) -> dict[str, Any]:
        """Return the error as JSON-compatible data: at least ``error`` (the class) and ``message``."""
        return {"error": type(self).__name__, "message": str(self)}


class Exhausted(StockadeError):
    """A limit ended code: base of ``stockade.ResourceExhausted`` and ``stockade.embedded.ResourceExhausted``."""


class FieldProblem:
    """A mistake in a policy: the field, its value and the reason. ``origin`` is the layer that set the value."""

    def __init__(self, field: str, value: str, reason: str, origin: str = "") -> None:
        self.field, self.value, self.reason, self.origin = field, value, reason, origin

    def __eq__(self, other: object) -> bool:
        """Return whether both describe the same mistake."""
        return vars(self) == vars(other) if isinstance(other, FieldProblem) else NotImplemented

    def __hash__(self) -> int:
        """Return the hash of all fields."""
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        """Return the call that makes the problem."""
        return f"FieldProblem({', '.join(map(repr, vars(self).values()))})"

    def __str__(self) -> str:
        """Return ``field = value: reason``, with the origin in parentheses."""
        text = f"{self.field} = {self.value}: {self.reason}"
        return f"{text} ({self.origin})" if self.origin else text


class PolicyError(StockadeError):
    """The policy is invalid. ``problems`` holds every mistake that was found, not only the first."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))

    def as_json(self) -> dict[str, Any]:
        """Return the problems as a list of ``field``, ``value``, ``reason`` and ``origin``."""
        return super().as_json() | {"problems": [vars(p) for p in self.problems]}


_SAME = (
    ("timeout", "time_limit", "time", "max_time", "seconds", "deadline", "wall_clock", "wall_time"),
    ("memory", "mem", "ram", "memory_limit", "max_memory", "mem_limit"),
    ("cpu", "cpu_seconds", "cpu_limit", "cpu_time"),
    ("cpus", "cores", "cpu_quota", "cpu_rate"),
    ("processes", "pids", "procs", "nproc", "max_processes", "threads", "pids_limit"),
    ("open_files", "nofile", "fds", "max_open_files", "file_descriptors"),
    ("file_size", "fsize", "max_file_size"),
    ("output", "max_output", "stdout_limit", "output_limit"),
    ("disk", "storage", "disk_limit", "tmpfs"),
    ("read", "readable", "read_only", "mounts", "volumes", "binds", "mount", "volume", "bind"),
    ("write", "writable", "read_write"),
    ("workspace", "cwd", "workdir", "working_dir"),
    ("allow", "hosts", "domains", "targets", "allowlist", "allowed_hosts"),
    ("source", "code", "script", "program", "solution", "completion"),
    ("argv", "command", "cmd"),
    ("arguments", "args", "argv"),
    ("environment", "env", "envs", "environ"),
    ("stdin", "input"),
    ("expected", "stdout", "expected_output"),
    ("language", "lang"),
    ("id", "task_id", "name"),
    ("interpreter", "python", "executable", "venv"),
    ("packages", "site_packages", "node_modules"),
    ("artifacts", "outputs", "output_files"),
    ("policy", "profile", "policy_file", "config"),
    ("run", "execute", "exec", "evaluate_code", "run_code", "run_python", "start"),
    ("exit_code", "returncode", "return_code", "exitcode", "status", "exit_status"),
    ("stdout", "output", "out", "text", "logs"),
    ("stderr", "err"),
    ("value", "result", "returned"),
    ("interpreter", "run_code", "run_python", "code", "kernel", "notebook", "code_interpreter"),
    ("run_command", "run", "exec", "execute", "commands", "process", "call", "popen"),
    ("files", "filesystem", "fs", "file"),
    ("remove", "delete", "rm", "unlink", "rmtree", "rmdir"),
    ("close", "kill", "stop", "terminate", "shutdown", "delete", "aclose", "destroy", "end", "rm", "remove"),
    ("read_text", "read", "get", "download", "cat", "open"),
    ("write", "write_text", "write_bytes", "upload", "put", "create"),
    ("make_dir", "mkdir", "makedirs", "create_folder"),
    ("list", "ls", "listdir", "dir", "iterdir", "list_files"),
    ("rename", "move", "mv"),
    ("wait", "communicate", "join"),
    ("on_finish", "on_end", "on_done", "on_complete", "on_exit"),
    ("Policy", "Limits", "Config", "Settings"),
)
"""Names of one thing, in stockade and in other tools."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name in ``known`` that ``name`` probably means; an empty text if none is close."""
    import difflib  # imported only after a mistake

    names = list(map(str, known))
    same = next((each for group in _SAME if name in group for each in group if each in names), "")
    near = same or next(iter(difflib.get_close_matches(name, names, n=1)), "")
    if near:
        return near
    meant: dict[str, str] = {}  # a misspelt name of another tool
    for group in _SAME:
        ours = next((each for each in group if each in names), "")
        meant |= dict.fromkeys(group, ours) if ours else {}
    return meant.get(next(iter(difflib.get_close_matches(name, meant, n=1, cutoff=0.75)), ""), "")


class JobError(StockadeError):
    """The job is invalid: an unknown language, an empty command, or a NUL in an argument, for example."""


class RequirementError(StockadeError):
    """A package cannot be provided, so nothing was started.

    ``field`` is ``requirements`` or ``store``, ``value`` is what is wrong, and ``reason`` and ``remedy`` are sentences.
    """

    def __init__(self, value: str, reason: str, remedy: str, *, field: str = "requirements") -> None:
        self.field, self.value, self.reason, self.remedy = field, value, reason, remedy
        super().__init__(f"{field} = {value!r}: {reason}; {remedy}")

    def as_json(self) -> dict[str, Any]:
        """Return ``field``, ``value``, ``reason`` and ``remedy``."""
        parts = {"field": self.field, "value": self.value, "reason": self.reason, "remedy": self.remedy}
        return super().as_json() | parts


class PlanError(StockadeError):
    """The policy asks for a guarantee that cannot be enforced here. Nothing was started.

    ``missing`` maps each guarantee to a sentence: what is missing, and what to install or loosen.
    """

    def __init__(self, backend: str, missing: Mapping[str, str]) -> None:
        self.backend = backend
        self.missing = dict(missing)
        lines = "; ".join(f"{guarantee}: {reason}" for guarantee, reason in self.missing.items())
        super().__init__(f"backend {backend!r} cannot hold this policy here: {lines}")

    def as_json(self) -> dict[str, Any]:
        """Return the missing guarantees with their sentences."""
        return super().as_json() | {"backend": self.backend, "missing": self.missing}


class BackendUnavailable(StockadeError):
    """No backend can be used here, or not the one that was named. The message has one line for each way out.

    ``accept`` maps guarantees to the strength that the strongest remaining backend has for them. A policy that accepts
    these runs here. It is empty if no policy would help.
    """

    def __init__(self, message: str, accept: Mapping[str, str] | None = None) -> None:
        self.accept = dict(accept or {})
        super().__init__(message)

    def as_json(self) -> dict[str, Any]:
        """Return the error with what the policy could accept."""
        return super().as_json() | {"accept": self.accept}


class SetupError(StockadeError):
    """The sandbox failed, not the code in it."""


class SandboxClosed(StockadeError):
    """The sandbox has ended, so nothing can run in it. The message says why."""


class ProtocolError(StockadeError):
    """A guest or a warden sent bytes that break the protocol."""


class CommitError(StockadeError):
    """The changes of a run could not be committed, and the project is unchanged.

    Each of ``conflicts`` has a path and a reason.
    """

    def __init__(self, conflicts: Sequence[Any]) -> None:
        self.conflicts = tuple(conflicts)
        shown = "; ".join(map(str, self.conflicts[:10]))
        more = len(self.conflicts) - 10
        super().__init__(f"nothing was committed: {shown}" + (f"; and {more} more" if more > 0 else ""))

    def as_json(self) -> dict[str, Any]:
        """Return the conflicts as a list of ``path`` and ``reason``."""
        return super().as_json() | {"conflicts": [vars(item) for item in self.conflicts]}
