# /// attack
# guarantee = "memory"
# summary = "Attaches a long filter to each of many sockets: the kernel compiles it into memory that it does not count."
# reference = "SO_ATTACH_FILTER in socket(7), net.core.bpf_jit_limit in admin-guide/sysctl/net.rst"
# success = "a hundred sockets have a filter"
# admitted = { gvisor = "gVisor's own memory counts" }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import ctypes
import socket
import struct

from kit import attempt, succeeded

LENGTH, ATTACH = 4096, 26
LOAD, RETURN = struct.pack("=HBBI", 0, 0, 0, 1), struct.pack("=HBBI", 6, 0, 0, 0xFFFF)
program = ctypes.create_string_buffer(LOAD * (LENGTH - 1) + RETURN)
attached = struct.pack("=H6xQ", LENGTH, ctypes.addressof(program))
kept = [attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(100)]
for one in kept:
    attempt(lambda one=one: one.setsockopt(socket.SOL_SOCKET, ATTACH, attached), "ENOPROTOOPT")
succeeded()
