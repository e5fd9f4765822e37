# /// attack
# guarantee = "network"
# summary = "Learns from a clash which ports the host, or another run, listens on."
# reference = "ip(7), EADDRINUSE"
# success = "the port is taken"
# stage = ["tcp"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import refused, refused_with, succeeded, target

server = socket.socket()
if refused_with(lambda: server.bind(("127.0.0.1", int(target("PORT")))), "EADDRINUSE"):
    succeeded()
refused("the port is free")
