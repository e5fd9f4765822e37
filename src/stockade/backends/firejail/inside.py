"""The last steps to a guest inside firejail's walls, in a process of its own that becomes the guest.

Sent into the sandbox as text, and run by its Python: the standard library only, nothing of stockade is there.
"""

import base64
import ctypes
import errno
import json
import os
import resource
import signal

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2  # prctl(2)
_SANDBOX_ERRORS = (errno.EAGAIN, errno.ENOMEM)  # of execve(2): the sandbox's fault, not the command's


class _Program(ctypes.Structure):
    """struct sock_fprog of seccomp(2)."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def main(job: int, status: int) -> None:
    """Read what to run from the descriptor ``job``, say on ``status`` how far it came, and become it."""
    with open(job, encoding="utf-8") as file:
        configuration = json.load(file)
    try:
        os.set_inheritable(status, False)
        if configuration["channel"]:
            os.set_inheritable(3, True)
        limits = [_cut(number, soft, hard) for number, soft, hard in configuration["limits"]]
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)  # firejail's own processes must not hear what is meant for the guest's group
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        if configuration["filter"]:
            program = base64.b64decode(configuration["filter"])
            _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(program) // 8, program)))
        _say(status, "exec")
        for limit in limits:
            resource.setrlimit(*limit)
    except OSError as error:
        _say(status, "setup", str(error))
        return
    try:
        _execute(configuration["argv"], configuration["environment"])
    except OSError as error:
        _say(
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


def _cut(number: int, soft: int, hard: int) -> tuple[int, tuple[int, int]]:
    """Cut a limit to what may still be had: only a privileged process raises a hard limit."""
    ceiling = resource.getrlimit(number)[1]
    most = max(soft, hard) if ceiling == resource.RLIM_INFINITY else ceiling
    return number, (min(soft, most), min(hard, most))


def _prctl(option: int, number: int, pointer: object = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(number), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0)) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def _say(status: int, word: str, reason: str = "", number: int = 0) -> None:
    os.write(status, json.dumps({"word": word, "reason": reason, "errno": number}, allow_nan=False).encode() + b"\n")
