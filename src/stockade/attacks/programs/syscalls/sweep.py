# /// attack
# guarantee = "syscalls"
# summary = "Makes every call that programs have no use for, by its bare number and with nothing in its hands."
# reference = "syscalls(2)"
# success = "one of them is answered by the kernel itself rather than by the filter"
# needs = ["seccomp"]
# control = { touches = "makes rare system calls with nothing in their hands" }
# admitted = { gvisor = "the policy's filter does not apply" }
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import libc, refused, succeeded

# Without vhangup, acct, sethostname and others that would do something even so.
NUMBERS = {
    "x86_64": {
        "adjtimex": 159, "settimeofday": 164, "clock_adjtime": 305, "swapon": 167, "swapoff": 168, "quotactl":
        179, "quotactl_fd": 443, "syslog": 103, "lookup_dcookie": 212, "fanotify_init": 300, "fanotify_mark":
        301, "open_by_handle_at": 304, "name_to_handle_at": 303, "kexec_load": 246, "kexec_file_load": 320,
        "init_module": 175, "finit_module": 313, "delete_module": 176, "reboot": 169, "bpf": 321,
        "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250, "add_key": 248, "request_key": 249,
        "memfd_secret": 447, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "ioperm":
        173, "iopl": 172, "modify_ldt": 154, "uselib": 134, "ustat": 136, "sysfs": 139, "remap_file_pages": 216,
        "lsm_set_self_attr": 460, "mount": 165, "umount2": 166, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
        "fspick": 433, "move_mount": 429, "open_tree": 428, "mount_setattr": 442, "pivot_root": 155, "chroot":
        161, "unshare": 272, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_getfd":
        438, "kcmp": 312, "process_madvise": 440, "process_mrelease": 448, "move_pages": 279, "migrate_pages":
        256, "io_setup": 206, "io_destroy": 207, "io_submit": 209, "io_cancel": 210, "io_getevents": 208,
        "io_pgetevents": 333,
    },
    "aarch64": {
        "adjtimex": 171, "settimeofday": 170, "clock_adjtime": 266, "swapon": 224, "swapoff": 225, "quotactl":
        60, "quotactl_fd": 443, "syslog": 116, "lookup_dcookie": 18, "fanotify_init": 262, "fanotify_mark": 263,
        "open_by_handle_at": 265, "name_to_handle_at": 264, "kexec_load": 104, "kexec_file_load": 294,
        "init_module": 105, "finit_module": 273, "delete_module": 106, "reboot": 142, "bpf": 280,
        "perf_event_open": 241, "userfaultfd": 282, "keyctl": 219, "add_key": 217, "request_key": 218,
        "memfd_secret": 447, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "remap_file_pages": 234, "lsm_set_self_attr": 460, "mount": 40, "umount2": 39, "fsopen": 430,
        "fsconfig": 431, "fsmount": 432, "fspick": 433, "move_mount": 429, "open_tree": 428, "mount_setattr":
        442, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268, "process_vm_readv": 270,
        "process_vm_writev": 271, "pidfd_getfd": 438, "kcmp": 272, "process_madvise": 440, "process_mrelease":
        448, "move_pages": 239, "migrate_pages": 238, "io_setup": 0, "io_destroy": 1, "io_submit": 2,
        "io_cancel": 3, "io_getevents": 4, "io_pgetevents": 292,
    },
}[os.uname().machine]  # fmt: skip
FIRST = {"userfaultfd": 1, "memfd_secret": 1 << 30, "iopl": 9}  # or these would do something
EPERM, ENOSYS = 1, 38

c = libc()
passed = []
for name, number in NUMBERS.items():
    ctypes.set_errno(0)
    result = c.syscall(ctypes.c_long(number), ctypes.c_long(FIRST.get(name, 0)), *[ctypes.c_long(0)] * 5)
    if result >= 0 or ctypes.get_errno() not in (EPERM, ENOSYS):
        passed.append(name)
if passed:
    succeeded(" ".join(passed))
refused(f"EPERM or ENOSYS, {len(NUMBERS)} times")
