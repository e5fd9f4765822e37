"""The calls that advice names, with the reason for each."""

from __future__ import annotations

_CODE = "runs text as code, which this check does not read"
_PROGRAM = "starts another program; a sandbox shows the system's own programs, and counts each process"
_PROCESS = "makes processes, which the limit on processes counts"
_NETWORK = "uses the network; a sandbox has none unless its policy opens it"
_MEMORY = "calls into C or raw memory, where a mistake ends the interpreter"
_DATA = "runs code that the data names; load data of others as JSON instead"
_SIGNAL = "sends signals; a sandbox hides every process but its own"
_DELETES = "deletes or moves whole folders"
_STACK = "lets recursion go on until the stack ends, which crashes the interpreter"
_WAITS = "waits for a person; a run without input ends here"

EXACT = {
    **dict.fromkeys(("eval", "exec", "compile", "__import__", "runpy.run_path", "runpy.run_module"), _CODE),
    **dict.fromkeys(("importlib.import_module", "code.interact"), _CODE),
    **dict.fromkeys(("os.system", "os.popen", "os.posix_spawn", "os.posix_spawnp", "os.startfile"), _PROGRAM),
    **dict.fromkeys(("pty.spawn", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"), _PROGRAM),
    **dict.fromkeys(("os.fork", "os.forkpty", "pty.fork"), _PROCESS),
    **dict.fromkeys(("concurrent.futures.ProcessPoolExecutor",), _PROCESS),
    **dict.fromkeys(("urllib.request.urlopen", "urllib.request.urlretrieve", "asyncio.open_connection"), _NETWORK),
    **dict.fromkeys(("os.kill", "os.killpg", "signal.pthread_kill", "signal.pidfd_send_signal"), _SIGNAL),
    **dict.fromkeys(("pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads"), _DATA),
    **dict.fromkeys(("shelve.open", "yaml.load", "yaml.unsafe_load", "dill.load", "dill.loads"), _DATA),
    **dict.fromkeys(("joblib.load", "torch.load", "pandas.read_pickle"), _DATA),
    **dict.fromkeys(("shutil.rmtree", "shutil.move", "os.removedirs"), _DELETES),
    "sys.setrecursionlimit": _STACK,
    "breakpoint": _WAITS,
    "pdb.set_trace": _WAITS,
}
"""The dotted name of a function to the reason."""
BEGINNINGS = {
    "subprocess.": _PROGRAM, "os.exec": _PROGRAM, "os.spawn": _PROGRAM, "multiprocessing.": _PROCESS,
    "socket.": _NETWORK, "requests.": _NETWORK, "httpx.": _NETWORK, "aiohttp.": _NETWORK, "http.client.": _NETWORK,
    "http.server.": _NETWORK, "socketserver.": _NETWORK, "smtplib.": _NETWORK, "ftplib.": _NETWORK,
    "paramiko.": _NETWORK, "ctypes.": _MEMORY, "mmap.": _MEMORY, "cffi.": _MEMORY,
}  # fmt: skip
"""The beginning of a dotted name to the reason."""


def reason(name: str) -> str:
    """Return why a call of the function ``name`` deserves attention, or an empty text."""
    found = EXACT.get(name)
    return found or next((why for start, why in BEGINNINGS.items() if name.startswith(start)), "")
