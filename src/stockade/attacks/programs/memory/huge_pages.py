# /// attack
# guarantee = "memory"
# summary = "Takes huge pages that the host has reserved: no control group for memory counts them."
# reference = "mmap(2), memfd_create(2), shmget(2), Documentation/admin-guide/mm/hugetlbpage.rst"
# success = "one page is written to"
# stage = ["huge_pages"]
# needs = ["huge-pages"]
# alone = true
# admitted = { gvisor = "gVisor's own memory counts" }
# refusal = { default = "errno" }
# ///

import ctypes
import mmap
import os

from kit import check, libc, refused, refused_with, succeeded

HUGE = 2 << 20
MAP_HUGETLB, MFD_HUGETLB, SHM_HUGETLB = 0x40000, 4, 0o4000
SIZED = 21 << 26  # the same size, written into the flags
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
SHARED = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS


def mapped(flags):
    mmap.mmap(-1, HUGE, flags=flags)[0] = 1


def in_a_file(flags):
    fd = os.memfd_create("m", flags)
    os.ftruncate(fd, HUGE)
    mmap.mmap(fd, HUGE)[0] = 1


def in_a_segment():
    c = libc()
    c.shmat.restype = ctypes.c_void_p
    segment = check(c.shmget(0, ctypes.c_size_t(HUGE), SHM_HUGETLB | 0o600))
    ctypes.memset(check(c.shmat(segment, None, 0)), 1, 1)
    c.shmctl(segment, 0, None)


ways = {
    "mmap": lambda: mapped(PRIVATE | MAP_HUGETLB),
    "mmap, shared": lambda: mapped(SHARED | MAP_HUGETLB),
    "mmap, with a size": lambda: mapped(PRIVATE | MAP_HUGETLB | SIZED),
    "memfd_create": lambda: in_a_file(MFD_HUGETLB),
    "memfd_create, with a size": lambda: in_a_file(MFD_HUGETLB | SIZED),
    "shmget": in_a_segment,
}
# EPERM: a filter refuses the whole call
taken = [name for name, way in ways.items() if not refused_with(way, "ENOMEM", "EINVAL", "EPERM")]
if taken:
    succeeded(", ".join(taken))
refused("ENOMEM")
