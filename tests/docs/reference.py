"""Write docs/reference.md from the docstrings of the public names: ``python -m tests.docs.reference``."""

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from enum import Enum
from pathlib import Path

import stockade

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
HEAD = """# Reference

Every public name of `stockade`, from its docstring. `make reference` writes this page, and a test compares it with the code.
The [guides](../README.md#guides) show how the parts work together.
"""
GROUPS = {
    "Run code": ["run", "run_command", "call", "Runner", "AsyncRunner", "PolicyOptions", "CommandOptions", "RunOptions", "ArtifactLimits"],
    "Sandboxes that live": [
        "Sandbox", "SandboxPool", "Process", "Terminal", "Interpreter", "CellResult", "CellOutcome", "CellUsage", "CellLimits", "CellOutput", "Display", "Shell",
        "ShellResult", "Files", "FileInfo", "Watch", "FileChange", "AsyncSandbox", "AsyncSandboxPool", "AsyncProcess", "AsyncTerminal", "AsyncInterpreter", "AsyncShell", "AsyncFiles", "AsyncWatch",
    ],
    "Results": [
        "Result", "Outcome", "LimitState", "Usage", "NetworkUse", "NetworkTarget", "NetworkRefusal", "GuestError", "Denial",
        "ChangeSet", "Change",
    ],
    "Follow a run": ["Stream", "AsyncStream", "Started", "Output", "UsageReport", "LimitReached", "Finished"],
    "Policies": ["Policy", "Network", "resolve", "Resolved", "Guarantee", "Strength", "Enforcement", "Isolation"],
    "What holds here": ["select", "Selection", "Trust", "plan", "Plan", "HostFacts"],
    "A service": [
        "Client", "RemoteOptions", "RemoteRunOptions", "RemoteSandbox", "RemoteSandboxOptions", "RemoteFiles",
        "RemoteInterpreter", "AsyncClient", "AsyncRemoteSandbox", "AsyncRemoteFiles", "AsyncRemoteInterpreter",
    ],
    "Advice": ["check", "Advice", "AdviceKind"],
    "Batches": ["evaluate", "aevaluate", "Program", "Verdict"],
    "Errors": [
        "StockadeError", "PolicyError", "JobError", "RequirementError", "PlanError", "BackendUnavailable", "SetupError", "SandboxClosed", "SessionEnded", "FileRefused", "ProtocolError",
        "GuestFailed", "ResourceExhausted", "Cancelled", "CommitError", "RecordError", "ResultFormatError",
        "ServiceError",
    ],
}  # fmt: skip
WIDTH = 110


def page():
    """Return the text of the page."""
    names = [name for group in GROUPS.values() for name in group]
    others = sorted(set(stockade.__all__) - set(names) - {"__version__"})
    parts = [HEAD]
    for title, group in (GROUPS | ({"Others": others} if others else {})).items():
        parts.append(f"## {title}\n")
        parts += [entry(name, getattr(stockade, name)) for name in group]
    return "\n".join(parts)


def entry(name, value):
    """Return the section of one public name."""
    if not inspect.isclass(value):
        return f"### `{name}`\n\n{signature(name, value)}\n{prose(value)}\n"
    lines = [f"### `{name}`\n"]
    is_data = issubclass(value, Enum | BaseException) or typing.is_typeddict(value) or dataclasses.is_dataclass(value)
    if not is_data and "__init__" in vars(value):
        lines.append(signature(name, value))
    lines += [f"{prose(value)}\n", *fields(value), *methods(name, value)]
    return "\n".join(lines)


def signature(name, value):
    """Return the call of a function or a class, as a block; one parameter a line if it is long."""
    found = inspect.signature(value)
    taken = [each for each in found.parameters.values() if each.name != "self"]
    words = [parameter(each) for each in taken]
    first = next((at for at, each in enumerate(taken) if each.kind is each.KEYWORD_ONLY), None)
    if first is not None:
        words.insert(first, "*")
    ends = "" if found.return_annotation in (found.empty, "None", None) else f" -> {found.return_annotation}"
    line = f"{name}({', '.join(words)}){ends}"
    if len(line) > WIDTH:
        line = f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){ends}"
    prefix = "async def " if inspect.iscoroutinefunction(value) else ""
    return f"```text\n{prefix}{line}\n```\n"


def parameter(found):
    """Return a parameter as in the source."""
    stars = {found.VAR_POSITIONAL: "*", found.VAR_KEYWORD: "**"}.get(found.kind, "")
    kind = "" if found.annotation is found.empty else f": {found.annotation}"
    default = "..." if " at 0x" in repr(found.default) else repr(found.default)
    return f"{stars}{found.name}{kind}" + ("" if found.default is found.empty else f" = {default}")


def prose(value):
    """Return a docstring as Markdown."""
    return inspect.cleandoc(value.__doc__ or "").replace("``", "`")


def fields(value):
    """Yield a list of the class's fields, with the texts below them in the source."""
    notes = comments(value)
    if issubclass(value, Enum):
        rows = [f"- `{each.name}` = `{each.value!r}`{note(notes.get(each.name))}" for each in value]
    else:
        own = getattr(value, "__pydantic_fields__", {})
        kinds = {name: str(kind) for name, kind in annotations(value).items() if not name.startswith("_")}
        described = {name: own[name].description for name in kinds if name in own} | notes
        rows = [f"- `{name}: {kind}`{note(described.get(name))}" for name, kind in kinds.items()]
        rows += [f"- `{name}`{note(prose(each))}" for name, each in members(value) if isinstance(each, property)]
    return [*rows, ""] if rows else []


def annotations(value):
    """Return the annotations of a class and of its bases in stockade, as written."""
    found = {}
    for base in reversed(value.__mro__):
        if base.__module__.startswith("stockade") and not inspect.isabstract(base):
            found |= {name: str(kind) for name, kind in inspect.get_annotations(base).items()}
    if typing.is_typeddict(value):
        found = {name: getattr(kind, "__forward_arg__", kind) for name, kind in value.__annotations__.items()}
    return {name: kind for name, kind in found.items() if "ClassVar" not in str(kind)}


def comments(value):
    """Return the texts that stand below the fields of a class."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0].body
    except (OSError, TypeError):
        return {}
    found = {}
    for before, after in itertools.pairwise(body):
        target = before.target if isinstance(before, ast.AnnAssign) else getattr(before, "targets", [None])[0]
        if isinstance(target, ast.Name) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[target.id] = inspect.cleandoc(str(after.value.value))
    return found


def methods(name, value):
    """Yield the public methods of a class with their docstrings."""
    for method, each in members(value):
        inner = each.__func__ if isinstance(each, classmethod | staticmethod) else each
        if inspect.isfunction(inner):
            yield f"#### `{name}.{method}`\n\n{signature(method, getattr(value, method))}\n{prose(inner)}\n"


def members(value):
    """Yield the public attributes that stockade's own classes define, in the order of the source."""
    seen = {}
    for base in value.__mro__:
        if base.__module__.startswith("stockade") and not issubclass(base, Enum):
            seen = {**seen, **{name: each for name, each in vars(base).items() if name[0] != "_" and name not in seen}}
    yield from ((name, each) for name, each in seen.items() if getattr(value, name, None) is not None)


def note(text):
    """Return the note after a field, on one line."""
    return f": {' '.join(text.replace('``', '`').split())}" if text else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
