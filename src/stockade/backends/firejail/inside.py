"""The last steps inside firejail's sandbox, in a process that then becomes the guest.

This file is sent into the sandbox as text, and the sandbox's Python runs it. stockade is absent there, so the file may
import only the standard library.
"""

import base64
import ctypes
import errno
import json
import os
import resource
import signal

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2  # prctl(2)
_SANDBOX_ERRORS = (errno.EAGAIN, errno.ENOMEM)  # errors of execve(2) that are the sandbox's fault, not the command's


class _Program(ctypes.Structure):
    """struct sock_fprog of seccomp(2)."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def main(job: int, status: int) -> None:
    """Read the configuration from the descriptor ``job``, report progress on ``status``, and execute the command."""
    with open(job, encoding="utf-8") as file:
        configuration = json.load(file)
    try:
        os.set_inheritable(status, False)
        if configuration["channel"]:
            os.set_inheritable(3, True)
        limits = [_lowered(number, soft, hard) for number, soft, hard in configuration["limits"]]
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)  # firejail's own processes must not get the signals for the guest's group
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        if configuration["filter"]:
            program = base64.b64decode(configuration["filter"])
            _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(program) // 8, program)))
        _report(status, "exec")
        for limit in limits:
            resource.setrlimit(*limit)
    except OSError as error:
        _report(status, "setup", str(error))
        return
    try:
        _execute(configuration["argv"], configuration["environment"])
    except OSError as error:
        _report(
            status,
            "setup" if error.errno in _SANDBOX_ERRORS else "not executed",
            configuration["argv"][0],
            error.errno or 0,
        )


def _execute(argv: list[str], environment: dict[str, str]) -> None:
    found: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    folders = (
        [""] if "/" in argv[0] else [f"{folder or '.'}/" for folder in environment.get("PATH", os.defpath).split(":")]
    )
    for folder in folders:
        try:
            os.execve(folder + argv[0], argv, environment)
        except OSError as error:
            if found.errno == errno.ENOENT:
                found = error
    raise found


def _lowered(number: int, soft: int, hard: int) -> tuple[int, tuple[int, int]]:
    """Lower a limit to the present hard limit, because only a privileged process can raise a hard limit."""
    ceiling = resource.getrlimit(number)[1]
    most = max(soft, hard) if ceiling == resource.RLIM_INFINITY else ceiling
    return number, (min(soft, most), min(hard, most))


def _prctl(option: int, number: int, pointer: object = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(number), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0)) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def _report(status: int, progress: str, reason: str = "", number: int = 0) -> None:
    os.write(
        status, json.dumps({"progress": progress, "reason": reason, "errno": number}, allow_nan=False).encode() + b"\n"
    )
