# /// attack
# guarantee = "network"
# summary = "Asks the proxy for a tunnel to services of the host, the proxy itself among them."
# reference = "RFC 9110, 9.3.6"
# success = "a service answers"
# stage = ["internet"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy 127.0.0.1:3128 is not in network.allow" }
# ///

from kit import exchange, has_proxy, head, refused, succeeded

for port in (80, 3128):
    request = head(f"CONNECT 127.0.0.1:{port}", f"Host: 127.0.0.1:{port}") if has_proxy() else head("GET /")
    answer = exchange("127.0.0.1", request, head("GET /"), port=port)
    if b"own service" in answer:
        succeeded()
refused()
