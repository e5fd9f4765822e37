# /// attack
# guarantee = "network"
# summary = "Names another site in TLS, with a dot at the end."
# reference = "RFC 6066, 3"
# success = "the server hears the other name"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:443", "example.org:8443"] } }
# refusal = { default = "proxy the TLS connection is for" }
# ///

from kit import shake, succeeded, target, tunnel

shake(tunnel("example.org"), f"{target('MARKER')}.example.net.")
succeeded()
