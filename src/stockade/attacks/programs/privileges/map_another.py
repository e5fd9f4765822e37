# /// attack
# guarantee = "privileges"
# summary = "Writes the map of a user namespace that its child has made, to be root in it."
# reference = "user_namespaces(7), /proc/pid/uid_map"
# success = "the child is root there"
# refusal = { default = "errno" }
# ///

import os

from kit import CLONE_NEWUSER, attempt, could_not_run, refused, succeeded, unshare

ready, tell = os.pipe()
wait, go = os.pipe()
uid = os.getuid()
child = os.fork()
if child == 0:
    try:
        unshare(CLONE_NEWUSER)
        os.write(tell, b"+")
    except OSError as error:
        os.write(tell, b"-" if error.errno in (1, 28) else b"?")
        os._exit(0)
    os.read(wait, 1)
    os._exit(0 if os.getuid() == 0 else 1)
word = os.read(ready, 1)
if word == b"-":
    refused("EPERM or ENOSPC")
if word != b"+":
    could_not_run(word)
fd = attempt(lambda: os.open(f"/proc/{child}/uid_map", os.O_WRONLY), "EROFS", "EACCES")
os.write(fd, f"0 {uid} 1".encode())
os.write(go, b"x")
if os.waitpid(child, 0)[1] == 0:
    succeeded()
