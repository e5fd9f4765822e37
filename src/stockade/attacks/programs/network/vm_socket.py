# /// attack
# guarantee = "network"
# summary = "Uses VM sockets, which know no network namespaces and reach the hypervisor."
# reference = "vsock(7)"
# success = "the host's ports are shared: the one that a process of the host listens on is taken"
# stage = ["vsock"]
# needs = ["vsock"]
# refusal = { default = "errno | admitted VM" }
# ///

import socket

from kit import attempt, could_not_run, succeeded, target

mine = attempt(lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM), "EPERM", "EAFNOSUPPORT", "EACCES")
try:
    mine.bind((socket.VMADDR_CID_ANY, int(target("PORT"))))
except OSError as error:
    succeeded(error)
could_not_run("the port is free: this kernel keeps VM sockets apart")
