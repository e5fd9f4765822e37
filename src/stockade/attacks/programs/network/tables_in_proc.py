# /// attack
# guarantee = "network"
# summary = "Reads in /proc which connections and sockets the host has."
# reference = "proc(5), /proc/net"
# success = "the listener's port or socket is in the tables"
# stage = ["tcp", "abstract"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

from kit import refused, succeeded, target

port = f":{int(target('PORT')):04X} "
with open("/proc/net/tcp") as tcp, open("/proc/net/unix") as unix:
    if port in tcp.read() or target("SOCKET") in unix.read():
        succeeded()
refused("neither")
