"""The numbers of system calls agree with the kernel's headers."""

import re
from pathlib import Path

import pytest

from stockade.linux.seccomp.syscalls import Arch, names, numbers

X86_64_HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
GENERIC_HEADER = Path("/usr/include/asm-generic/unistd.h")

# Calls newer than the headers of most machines, from Linux 6.5 to 6.18.
NEWER = {
    "cachestat": 451,
    "fchmodat2": 452,
    "map_shadow_stack": 453,
    "futex_wake": 454,
    "futex_requeue": 456,
    "statmount": 457,
    "lsm_list_modules": 461,
    "mseal": 462,
    "setxattrat": 463,
    "removexattrat": 466,
    "open_tree_attr": 467,
    "file_getattr": 468,
    "file_setattr": 469,
}


def defined(header: Path) -> dict[str, int]:
    found = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
    return {name: int(number) for name, number in found}


@pytest.mark.skipif(not X86_64_HEADER.exists(), reason="no x86_64 kernel headers here")
def test_numbers_x86_64_match_kernel_headers() -> None:
    header, ours = defined(X86_64_HEADER), numbers(Arch.X86_64)
    assert len(header) > 300
    known = {name: number for name, number in header.items() if number <= max(ours.values())}
    assert {name: ours.get(name) for name in known} == known


@pytest.mark.skipif(not GENERIC_HEADER.exists(), reason="no generic kernel headers here")
def test_numbers_aarch64_match_generic_headers() -> None:
    header, ours = defined(GENERIC_HEADER), numbers(Arch.AARCH64)
    not_ours = re.compile(r".*time64|.*_time64.*|syscalls|arch_specific_syscall|fadvise64_64|riscv.*|sync_file_range2")
    renamed = {"fstatat": "newfstatat", "umount": "umount2"}
    for name, number in header.items():
        if not not_ours.fullmatch(name) and number <= max(ours.values()):
            assert ours.get(renamed.get(name, name)) == number, name


@pytest.mark.parametrize("arch", Arch)
def test_numbers_new_calls_are_common(arch: Arch) -> None:
    assert {name: numbers(arch)[name] for name in NEWER} == NEWER
    assert max(names(arch)) == 469


@pytest.mark.parametrize("arch", Arch)
def test_numbers_are_unique(arch: Arch) -> None:
    assert len(names(arch)) == len(numbers(arch))


def test_numbers_known_samples_are_exact() -> None:
    x86_64, aarch64 = numbers(Arch.X86_64), numbers(Arch.AARCH64)
    assert [x86_64[n] for n in ("read", "execve", "seccomp", "rseq", "uretprobe", "uprobe")] == [
        0, 59, 317, 334, 335, 336,
    ]  # fmt: skip
    assert [aarch64[n] for n in ("io_setup", "openat", "clone", "execve", "wait4", "seccomp")] == [
        0, 56, 220, 221, 260, 277,
    ]  # fmt: skip
