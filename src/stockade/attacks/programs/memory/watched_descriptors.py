# /// attack
# guarantee = "memory"
# summary = "Has many epoll instances watch the same descriptors: an entry for each pair."
# reference = "epoll(7)"
# success = "twice the limit lies in entries"
# needs = ["cgroup-memory"]
# policy = { limits = { memory = "16MiB", open_files = 1024 } }
# refusal = { default = "limit memory" }
# ///

import os
import select

from kit import succeeded

EACH = 192  # bytes of an entry and of its place in a queue
watched = [os.eventfd(0) for _ in range(500)]
instances = []
for _ in range((32 << 20) // EACH // len(watched)):
    instances.append(select.epoll())
    for each in watched:
        instances[-1].register(each)
succeeded(len(instances))
