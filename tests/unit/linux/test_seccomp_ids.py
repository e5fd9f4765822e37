"""The filter of a guest with a single id: every other id gets EPERM, as from a kernel without user namespaces."""

import pytest
from tests.unit.linux.test_seccomp_bpf import assert_agree

from stockade.linux.seccomp.filters import table_of, with_one_id
from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.syscalls import Arch, numbers
from stockade.linux.seccomp.table import ALLOW, REFUSE

NR = numbers(Arch.X86_64)
TABLE = with_one_id(table_of(Filter.STANDARD, Arch.X86_64), 1000)
UNCHANGED = 0xFFFF_FFFF


@pytest.mark.parametrize(("name", "args", "action"), [
    ("chown", (0, 1000, 1000), ALLOW),
    ("chown", (0, UNCHANGED, 1000), ALLOW),
    ("chown", (0, 0, UNCHANGED), REFUSE),
    ("chown", (0, UNCHANGED, 12345), REFUSE),
    ("fchownat", (0, 0, 1000, 1000), ALLOW),
    ("fchownat", (0, 0, 1000, 0), REFUSE),
    ("setuid", (1000,), ALLOW),
    ("setuid", (1 << 32 | 1000,), ALLOW),
    ("setuid", (0,), REFUSE),
    ("setresgid", (UNCHANGED, 1000, UNCHANGED), ALLOW),
    ("setresgid", (1000, 1000, 7), REFUSE),
    ("setgroups", (1, 0), ALLOW),
])  # fmt: skip
def test_id_other_than_own_is_not_permitted(name, args, action):
    assert TABLE.decide(NR[name], (*args, *(0,) * (6 - len(args)))) == action


def test_program_agrees_with_table():
    assert_agree(TABLE)
