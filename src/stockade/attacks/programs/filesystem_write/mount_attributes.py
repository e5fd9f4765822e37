# /// attack
# guarantee = "filesystem_write"
# summary = "Takes the read-only attribute off with the newer call, on the mount and on a copy of it."
# reference = "mount_setattr(2), open_tree(2)"
# success = "the file has changed"
# stage = ["readonly"]
# observe = ["changed"]
# control = { namespaces = ["user", "mount"], readonly = true }
# confined = { ATTACK_NESTED = "1" }
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import CLONE_NEWNS, attempt, new_user_namespace, refused, refused_with, succeeded, syscall, target

ATTR_RDONLY, AT_EMPTY_PATH, OPEN_TREE_CLONE = 1, 0x1000, 1
attributes = (ctypes.c_uint64 * 4)(0, ATTR_RDONLY, 0, 0)
place = target("READONLY")


def clear(fd, path, flags):
    syscall("mount_setattr", fd, path, flags, attributes, 32)


if refused_with(lambda: clear(-100, place.encode(), 0), "EPERM"):
    if "ATTACK_NESTED" in os.environ:
        new_user_namespace(CLONE_NEWNS)
        if refused_with(lambda: clear(-100, place.encode(), 0), "EPERM"):
            copy = attempt(lambda: syscall("open_tree", -100, place.encode(), OPEN_TREE_CLONE), "EPERM", "EINVAL")
            attempt(lambda: clear(copy, b"", AT_EMPTY_PATH), "EPERM")
            fd = os.open("file", os.O_WRONLY, dir_fd=copy)
            os.write(fd, b"changed")
            succeeded("through a copy")
    else:
        refused("EPERM")
fd = os.open(place + "/file", os.O_WRONLY)
os.write(fd, b"changed")
succeeded()
