"""What attack programs share: the sentinel exit codes, and refusals checked to the errno. Laid beside each program."""
# Runs beside hostile programs, in as little Python as it takes: no pathlib.

import errno
import os
import sys

SUCCEEDED, REFUSED, COULD_NOT_RUN = 42, 43, 44

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP = 0x08000000, 0x04000000, 0x02000000


def _end(code, word, note):
    try:
        sys.stdout.write(f"{word} {note}\n")
        sys.stdout.flush()
    finally:
        os._exit(code)


def succeeded(note=""):
    """End: the attack did what it set out to do."""
    _end(SUCCEEDED, "ATTACK SUCCEEDED", note)


def refused(note=""):
    """End: the refusal was the expected one."""
    _end(REFUSED, "REFUSED", note)


def could_not_run(note=""):
    """End: neither; the reason says why."""
    _end(COULD_NOT_RUN, "COULD NOT RUN", note)


def attempt(action, *expected, then=None):
    """Return what ``action`` returns. Errors named in ``expected`` are the refusal; any other spoils the run.

    ``then`` goes on after an expected refusal, for attacks with several ways: it is called with the error.
    """
    try:
        return action()
    except OSError as error:
        name = errno.errorcode.get(error.errno, str(error.errno))
        if name not in expected:
            could_not_run(f"unexpected {name}: {error}")
        if then is None:
            refused(name)
        return then(error)


def refused_with(action, *expected):
    """Return whether ``action`` was refused with one of ``expected``; another error spoils the run."""
    try:
        action()
    except OSError as error:
        name = errno.errorcode.get(error.errno, str(error.errno))
        if name not in expected:
            could_not_run(f"unexpected {name}: {error}")
        return True
    return False


def libc():
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def check(result, what=""):
    """Return ``result`` of a C call, or raise its errno."""
    import ctypes

    if result == -1 or result is None:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def syscall(number, *args):
    """Make a raw system call: by number, or by name for those known here."""
    import ctypes

    number = _NUMBERS[os.uname().machine][number] if isinstance(number, str) else number
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return check(libc().syscall(ctypes.c_long(number), *words), str(number))


def mount(source, target, kind, flags, data=None):
    encoded = [None if part is None else part.encode() for part in (source, target, kind, data)]
    import ctypes

    return check(libc().mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), "mount")


def unshare(flags):
    return check(libc().unshare(flags), "unshare")


def new_user_namespace(flags=0):
    """Become root of a new user namespace, with other namespaces in ``flags``; being refused is a refusal."""
    uid, gid = os.getuid(), os.getgid()
    # EPERM: a filter; ENOSPC: none may be made below this one (user.max_user_namespaces)
    attempt(lambda: unshare(CLONE_NEWUSER | flags), "EPERM", "ENOSPC")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError:
            return False  # without a map, still with every capability in it
    return True


def target(name):
    """Return what the driver has prepared under ``name``."""
    value = os.environ.get(f"ATTACK_{name}")
    if value is None:
        could_not_run(f"nothing was prepared: {name}")
    return value


def has_proxy():
    """Return whether this is the confined run, whose only way out is a proxy."""
    return os.environ.get("http_proxy") == "http://127.0.0.1:3128"


def connect(host, port=80):
    """Return a connection to the proxy, or in the control run to the server that the attack aims at."""
    import socket

    sock = socket.create_connection(("127.0.0.1", 3128) if has_proxy() else (host, port), 5)
    sock.settimeout(3)
    return sock


def url(host, path):
    """Return what a request line names: a whole URL for the proxy, and a path for a server."""
    return f"http://{host}{path}" if has_proxy() else path


def head(line, *fields):
    """Return the head of a request as bytes."""
    return "\r\n".join((f"{line} HTTP/1.1", *fields, "", "")).encode()


def exchange(host, data, *more, port=80):
    """Send ``data``, and ``more`` after short pauses; return everything that comes back."""
    import time

    found = b""
    with connect(host, port) as sock:
        try:
            sock.sendall(data)
            for part in more:
                time.sleep(0.2)
                sock.sendall(part)
            while piece := sock.recv(1 << 16):
                found += piece
        except OSError:
            pass  # a refusal may end the connection at any time
    return found


def get(host, path, *fields, port=80, named=None):
    """Return the answer to a simple request. ``named`` is the text of the host in URL and Host, if it differs."""
    text = (named or host) if port == 80 else f"{named or host}:{port}"
    return exchange(host, head(f"GET {url(text, path)}", f"Host: {text}", "Connection: close", *fields), port=port)


def tunnel(host, port=443):
    """Return a connection through the proxy to a listed host; a refusal ends the program."""
    sock = connect(host, port)
    if has_proxy():
        sock.sendall(head(f"CONNECT {host}:{port}", f"Host: {host}:{port}"))
        answer = sock.recv(1 << 16)
        if b" 200 " not in answer:
            judge(answer)
    return sock


def shake(sock, name):
    """Return a TLS connection that names ``name`` and verifies nothing; a refusal ends the program."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        return context.wrap_socket(sock, server_hostname=name)
    except OSError as error:
        refused(error)


def judge(answer):
    """End by an answer of HTTP: 200 of a server is a success, and anything that the proxy says is a refusal."""
    line = answer.partition(b"\r\n")[0].decode("latin-1")
    if line[9:12] == "200":
        succeeded(line)
    if has_proxy():
        refused(line)
    could_not_run(f"no answer of a server: {line!r}")


def by_gateway(host, path, *fields, method="GET", port=443, connection="close"):
    """Return the answer to a request with a secret: by the gateway, or in the control run by TLS that verifies nothing."""
    text = host if port == 443 else f"{host}:{port}"
    if has_proxy():
        return exchange(
            host, head(f"{method} /{text}{path}", "Host: 127.0.0.1:3128", f"Connection: {connection}", *fields)
        )
    sock = connect(host, port)
    sock = shake(sock, host) if port in (443, 8443) else sock
    sock.sendall(head(f"{method} {path}", f"Host: {text}", f"Connection: {connection}", *fields))
    found = b""
    try:
        while piece := sock.recv(1 << 16):
            found += piece
    except OSError:
        pass
    return found


def has_secret(text):
    """Return whether the canary's secret, whatever it is, stands in ``text``; show it if so."""
    import re

    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    found = re.search(rb"CANARY-[0-9a-f]{32}", data)
    if found:
        print(found.group().decode())
    return bool(found)


_NUMBERS = {
    "x86_64": {
        "clone": 56, "msgget": 68, "keyctl": 250, "add_key": 248, "bpf": 321, "perf_event_open": 298,
        "name_to_handle_at": 303, "open_by_handle_at": 304, "process_vm_readv": 310, "open_tree": 428,
        "move_mount": 429, "mount_setattr": 442, "memfd_create": 319, "pidfd_open": 434, "pidfd_getfd": 438,
        "capset": 126, "setns": 308,
    },
    "aarch64": {
        "clone": 220, "msgget": 186, "keyctl": 219, "add_key": 217, "bpf": 280, "perf_event_open": 241,
        "name_to_handle_at": 264, "open_by_handle_at": 265, "process_vm_readv": 270, "open_tree": 428,
        "move_mount": 429, "mount_setattr": 442, "memfd_create": 279, "pidfd_open": 434, "pidfd_getfd": 438,
        "capset": 91, "setns": 268,
    },
}  # fmt: skip
