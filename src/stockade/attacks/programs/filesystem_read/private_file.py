# /// attack
# guarantee = "filesystem_read"
# summary = "Reads a file that only its owner may read, in a folder that it is shown."
# reference = "credentials(7); user_namespaces(7): a uid mapped inside is still that uid outside"
# success = "its secret is read"
# stage = ["private_file"]
# observe = ["secret"]
# needs = ["root"]
# refusal = { default = "errno" }
# ///

from kit import attempt, has_secret, succeeded, target

file = attempt(lambda: open(target("PRIVATE")), "EACCES")
with file:
    has_secret(file.read())
succeeded()
