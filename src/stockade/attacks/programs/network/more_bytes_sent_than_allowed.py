# /// attack
# guarantee = "network"
# summary = "Sends more bytes than the policy allows."
# reference = "network.sent"
# success = "the server gets the second body as well"
# stage = ["internet"]
# observe = ["whole"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"], sent = 1000000 } }
# refusal = { default = "proxy bytes of network.sent" }
# ///

from kit import exchange, head, refused, succeeded, target, url


def send(path, size):
    fields = ("Host: example.org", f"Content-Length: {size}", "Connection: close")
    return exchange("example.org", head(f"POST {url('example.org', path)}", *fields) + bytes(size))


send("/first", 600000)
if b" 200 " in send("/" + target("MARKER")[::-1], 600000)[:15]:
    succeeded()
refused()
