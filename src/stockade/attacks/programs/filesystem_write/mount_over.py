# /// attack
# guarantee = "filesystem_write"
# summary = "Lays a file system of its own over one that others trust."
# reference = "mount(2)"
# success = "something is mounted over /etc"
# control = { namespaces = ["user", "mount"] }
# refusal = { default = "errno" }
# ///

from kit import attempt, mount, succeeded

attempt(lambda: mount("tmpfs", "/etc", "tmpfs", 0, "size=64k"), "EPERM")
succeeded()
