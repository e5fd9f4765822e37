# /// attack
# guarantee = "syscalls"
# summary = "Makes every call that only the kernel's own administration needs, by its bare number, with nothing in its hands."
# reference = "syscalls(2)"
# success = "one of them is answered by the kernel itself rather than by the filter"
# needs = ["seccomp"]
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import libc, refused, succeeded

# Without vhangup, acct and others that would do something even with nothing in their hands.
NUMBERS = {
    "x86_64": [
        139,
        155,
        165,
        166,
        167,
        168,
        169,
        172,
        173,
        175,
        176,
        246,
        248,
        249,
        250,
        298,
        300,
        304,
        308,
        310,
        311,
        312,
        313,
        320,
        321,
        323,
        425,
        426,
        427,
        428,
        429,
        430,
        431,
        432,
        433,
        438,
        442,
        443,
    ],
    "aarch64": [
        39,
        40,
        41,
        97,
        104,
        105,
        106,
        142,
        217,
        218,
        219,
        224,
        225,
        241,
        262,
        265,
        268,
        270,
        271,
        272,
        273,
        280,
        282,
        294,
        425,
        426,
        427,
        428,
        429,
        430,
        431,
        432,
        433,
        438,
        442,
        443,
    ],
}[os.uname().machine]
EPERM, ENOSYS = 1, 38
c = libc()
passed = []
for number in NUMBERS:
    if number == 139:
        continue  # sysfs(2) answers anybody
    ctypes.set_errno(0)
    zeros = [ctypes.c_long(0)] * 6
    if number in (323, 282):
        zeros[0] = ctypes.c_long(1)  # userfaultfd(UFFD_USER_MODE_ONLY)
    if c.syscall(ctypes.c_long(number), *zeros) >= 0 or ctypes.get_errno() not in (EPERM, ENOSYS):
        passed.append(number)
if passed:
    succeeded(passed)
refused(f"EPERM or ENOSYS, {len(NUMBERS)} times")
