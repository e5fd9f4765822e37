"""The bundle of a container for runsc: that of the oci backend, put into its words. Pure functions.

runsc maps no ids here, so its helper for files (the gofer) can give a file on the host to no user but the run's own. So
the guest's writable folders lie in gVisor's own memory, and the job's files are copied into them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from stockade.backends.oci import bundle
from stockade.backends.shared.guest_environment import WORKSPACE
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from stockade.core.launch import Step
    from stockade.policy.model import Policy
    from stockade.runs.job import Job

CHANNEL = f"{bundle.BUNDLE}/channel"
"""A folder with the files by which the guest's side reports. runsc passes on no descriptors but the standard three."""
_CHANNEL_BYTES, _CHANNEL_INODES = 8 << 20, 4
_RESULT, _END = "/.stockade-result", "/.stockade-end"
_JOB_FILES = "/.stockade-files"
NOT_COPIED = b"stockade: the files of the job cannot be copied\n"
NOT_COPIED_STATUS = 125
_OR_FAIL = f"{{ echo '{NOT_COPIED.decode().strip()}' >&2; : >{_END}; exit {NOT_COPIED_STATUS}; }}"
_COPY = f"cp -R {_JOB_FILES}/. . 2>/dev/null || {_OR_FAIL}; "
_RUN = 'exec 9>&2 2>/dev/null; trap : INT; (exec "$@" 2>&9 9>&-{}); status=$?; : >' + _END + "; exit $status"
_OWN = ("/dev", "/dev/pts")
"""Folders that gVisor itself provides."""
_WORDS = {"rro": "ro", "rnosuid": "nosuid", "rnodev": "nodev"}
"""What runsc says for the recursive options. Others it ignores: the folder would be writable."""
_PAGE = 4096
_PARTS = {"tmp": 4, "shm": 4, "workspace": 2}
"""The part of the limit on the disk that each folder gets, as its divisor."""


def adapted(
    fields: Mapping[str, Any], policy: Policy, job: Job, rlimits: Mapping[str, tuple[int, int]]
) -> dict[str, Any]:
    """Return the fields of ``config.json`` for runsc, from those for any runtime. gVisor holds the ``rlimits``."""
    process = fields["process"]
    limits = [{"type": f"RLIMIT_{name.upper()}", "soft": soft, "hard": hard} for name, (soft, hard) in rlimits.items()]
    kinds = [each["type"] for each in fields["linux"]["namespaces"] if each["type"] not in ("user", "cgroup")]
    return {
        **{name: fields[name] for name in ("ociVersion", "hostname", "root")},
        "process": {**process, "rlimits": limits},
        "mounts": list(_mounts(fields["mounts"], policy, job)),
        "linux": {"namespaces": [{"type": kind} for kind in kinds]},
    }


def first_process(*, copies: bool, channel: bool) -> tuple[str, ...]:
    """Return the first process of the container, which runs the command that follows: see ``oci.bundle``.

    It empties a file when the guest has ended. If gVisor itself ends, nobody does.
    """
    script = (_COPY if copies else "") + _RUN.format(f" 3>{_RESULT}" if channel else "")
    return ("/bin/sh", "-c", script, "sh")


def copies_files(policy: Policy, job: Job) -> bool:
    """Return whether the first process copies the job's files: a workspace that is only read shows them itself."""
    return bool(job.files) and policy.filesystem.way == "write"


def channel_steps() -> tuple[Step, ...]:
    """Return the steps that make the files of the reports, in a folder of bounded size."""
    return (
        ("folder", CHANNEL, 0o755, False),
        ("sized_folder", CHANNEL, _CHANNEL_BYTES, _CHANNEL_INODES),
        ("file", f"{CHANNEL}/result", b"", 0o666, False),
        ("file", f"{CHANNEL}/end", b"-", 0o666, False),
    )


def _mounts(found: Iterable[Mapping[str, Any]], policy: Policy, job: Job) -> Iterable[dict[str, Any]]:
    for mount in found:
        source, target = mount["source"], mount["destination"]
        if target in _OWN:
            continue
        name = source.removeprefix(f"{bundle.SCRATCH}/")
        if name != source and (target != WORKSPACE or policy.filesystem.way == "write"):
            yield _memory(target, name, policy, job)
        else:
            yield {**mount, "options": [_WORDS.get(option, option) for option in mount["options"]]}
    yield _bind(f"{bundle.SCRATCH}/workspace", _JOB_FILES, "ro")
    yield _bind(f"{CHANNEL}/result", _RESULT, "rw")
    yield _bind(f"{CHANNEL}/end", _END, "rw")


def _bind(source: str, target: str, way: str) -> dict[str, Any]:
    return {"destination": target, "type": "bind", "source": source, "options": ["bind", way, "nosuid", "nodev"]}


def _memory(target: str, name: str, policy: Policy, job: Job) -> dict[str, Any]:
    """Return a file system in gVisor's memory. Without a limit on the disk, that on memory bounds it."""
    disk = policy.limits.figure(Guarantee.DISK)
    more, options = 0, ["nosuid", "nodev", "mode=1777"]
    if target == WORKSPACE:
        more = sum(-(-len(content) // _PAGE) * _PAGE for content in job.files.values())
        options = ["nosuid", "nodev", "mode=755", f"uid={policy.security.uid}", f"gid={policy.security.uid}"]
    if disk is not None:
        options.append(f"size={int(disk) // _PARTS[name] + more}")
    return {"destination": target, "type": "tmpfs", "source": "tmpfs", "options": options}
