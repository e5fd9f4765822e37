# /// attack
# guarantee = "filesystem_write"
# summary = "Plants a hook in a project that may be written, where the hooks are protected: also by moving their folder away."
# reference = "rename(2): EBUSY is for mount points themselves, not for folders above them"
# success = "a hook stands where git would run it"
# stage = ["project_write"]
# observe = ["hooked"]
# policy = { accept = { disk = "absent" } }
# refusal = { default = "errno" }
# ///

import os

from kit import refused, succeeded, target

os.chdir(target("PROJECT"))


def attempt(*steps):
    try:
        for step in steps:
            step()
    except OSError as error:
        return error
    return None


def plant():
    with open(".git/hooks/pre-commit", "w") as file:
        file.write("#!/bin/sh\n")


ways = [
    (plant,),
    (lambda: os.rename(".git", "was"), lambda: os.makedirs(".git/hooks"), plant),
    (lambda: os.rename(".git/hooks", "was"), lambda: os.mkdir(".git/hooks"), plant),
    (lambda: os.symlink("was", ".git/hooks"), plant),
    (lambda: os.rmdir(".git/hooks"), lambda: os.mkdir(".git/hooks"), plant),
    (lambda: os.chmod(".git/hooks", 0o777), plant),
]
errors = [attempt(*way) for way in ways]
if not all(errors):
    succeeded()
refused(", ".join(type(error).__name__ for error in errors))
