# /// attack
# guarantee = "syscalls"
# summary = "Reaches the kernel's ciphers by a socket."
# reference = "AF_ALG in crypto/userspace-if.rst"
# success = "the socket is there"
# needs = ["seccomp", "crypto-sockets"]
# refusal = { default = "errno" }
# ///

import socket

from kit import attempt, succeeded

attempt(lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET), "EPERM", "EAFNOSUPPORT", "EACCES")
succeeded()
